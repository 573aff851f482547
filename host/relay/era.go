package relay

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/hermes-host/hermes-host/internal/rawjson"
)

// What the two eras say in different places. Up to 2025-11-25 a session knows
// its client; from 2026-07-28 on each request describes its client in _meta
// (SEP-2575), and what a server wants to ask is a result (SEP-2322).
const (
	metaOurs         = "io.modelcontextprotocol/" // what a request of 2026-07-28 says for the protocol
	metaClientInfo   = metaOurs + "clientInfo"
	metaCapabilities = metaOurs + "clientCapabilities"
)

// resumable reports whether a request may be answered with input_required.
func resumable(method string) bool {
	return method == "tools/call" || method == "prompts/get" || method == "resources/read"
}

// state returns the requestState of a client's retry, "" if it is none.
func (r *request) state() string {
	if !resumable(r.Method) || !bytes.Contains(r.raw, []byte(`"requestState"`)) {
		return ""
	}
	return rawjson.Text(r.raw, "requestState")
}

// forLegacy takes out of a request of 2026-07-28 what only that era knows.
func forLegacy(r *request) {
	if r.meta.To > 0 {
		r.edit(withoutOurs(r.meta.Of(r.raw)), "_meta")
	}
	for _, member := range []string{"inputResponses", "requestState"} {
		if resumable(r.Method) && bytes.Contains(r.raw, []byte(member)) {
			r.edit(nil, member)
		}
	}
}

// withoutOurs returns a _meta without the members that 2026-07-28 defines; nil
// if nothing is left.
func withoutOurs(meta json.RawMessage) json.RawMessage {
	if !bytes.Contains(meta, []byte(metaOurs)) {
		return meta
	}
	out := []byte{'{'}
	err := rawjson.Fields(meta, func(name string, val json.RawMessage) bool {
		if strings.HasPrefix(name, metaOurs) {
			return true
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, rawjson.Quote(name)...), ':'), val...)
		return true
	})
	switch {
	case err != nil:
		return meta
	case len(out) == 1:
		return nil
	}
	return append(out, '}')
}

// forModern tells a server of 2026-07-28 about the client of an older session
// what a newer client says itself: who it is, what it can be asked, and which
// log messages it wants. The transport plugin adds the version.
func (r *Relay) forModern(req *request, in *call) {
	meta := req.meta.Of(req.raw)
	if len(meta) == 0 || meta[0] != '{' {
		meta = []byte(`{}`)
	}
	add := func(name string, val json.RawMessage) {
		if len(val) == 0 || val[0] == 'n' || rawjson.Get(meta, name) != nil {
			return
		}
		if with, err := rawjson.Set(meta, val, name); err == nil {
			meta = with
		}
	}
	add(metaClientInfo, req.Client.Info())
	capabilities := req.Client.Capabilities()
	if len(capabilities) == 0 || capabilities[0] != '{' {
		capabilities = json.RawMessage(`{}`)
	}
	add(metaCapabilities, capabilities)
	if lv := r.levelOf(in.link, req.Client, false); lv != 0 {
		add(metaLogLevel, json.RawMessage(strconv.Quote(levelNames[lv])))
	}
	req.edit(meta, "_meta")
}

// edit sets a member of the params, or deletes it if val is nil, and finds the
// places of what encode replaces anew.
func (p *params) edit(val json.RawMessage, member string) {
	raw := p.raw
	if val == nil {
		raw = rawjson.Delete(raw, member)
	} else if with, err := rawjson.Set(raw, val, member); err == nil {
		raw = with
	}
	p.raw = raw
	var at [2]rawjson.Span
	p.meta, p.token = rawjson.Span{}, rawjson.Span{}
	key := p.member
	if rawjson.Find(raw, at[:], "_meta", key) != nil {
		return // the params were read before
	}
	p.meta, p.key = at[0], at[1]
	p.findToken()
}
