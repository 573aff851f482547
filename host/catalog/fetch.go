package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// Bounds of one list. A list that goes beyond is cut, and status says so.
const (
	maxPages   = 10_000
	maxEntries = 50_000
	maxBytes   = 64 << 20
	maxBad     = 100 // quarantined entries that are remembered one by one
)

// heard is one list as a server gave it.
type heard struct {
	items []*item
	bad   []Quarantined
	more  int    // quarantined entries beyond bad
	note  string // what was odd about the list; for status
	extra []member
}

// equal reports whether two lists are the same to clients and in status.
func (h *heard) equal(o *heard) bool {
	return h.more == o.more && h.note == o.note && slices.Equal(h.bad, o.bad) &&
		slices.EqualFunc(h.items, o.items, func(a, b *item) bool { return bytes.Equal(a.raw, b.raw) }) &&
		slices.EqualFunc(h.extra, o.extra, func(a, b member) bool { return a.name == b.name && bytes.Equal(a.raw, b.raw) })
}

// member is a member of a list's result besides the entries, such as ttlMs.
type member struct {
	name string
	raw  json.RawMessage
}

// A refusal is an answer of the server that is no list.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

func refused(format string, args ...any) (heard, error) {
	return heard{}, &refusal{fmt.Errorf(format, args...)}
}

// fetch asks for all pages of a list. A server that does not know the method
// has an empty list. The error is a *refusal if the server answered.
func fetch(ctx context.Context, s session.Session, kind Kind) (heard, error) {
	var h heard
	facts := kindFacts[kind]
	names := map[string]bool{}
	cursors := map[string]bool{}
	var params json.RawMessage
	size := 0
	for page := 0; ; page++ {
		reply, err := s.Call(ctx, session.Request{Method: facts.method, Params: params})
		if err != nil {
			return heard{}, fmt.Errorf("%s: %w", facts.method, err)
		}
		if e := reply.Error; e != nil {
			if e.Code == jsonrpc.CodeMethodNotFound && page == 0 {
				return heard{}, nil
			}
			return refused("%s: the server answered: %w", facts.method, e)
		}
		var list, next json.RawMessage
		err = rawjson.Fields(reply.Result, func(name string, val json.RawMessage) bool {
			switch {
			case name == facts.member:
				list = val
			case name == "nextCursor":
				next = val
			case page == 0:
				h.extra = append(h.extra, member{name, val})
			}
			return true
		})
		if err != nil {
			return refused("%s: the result is unusable: %w", facts.method, err)
		}
		entries, err := rawjson.Elements(list)
		if err != nil && list != nil && string(list) != "null" {
			return refused("%s: %q is not an array: %w", facts.method, facts.member, err)
		}
		for _, raw := range entries {
			size += len(raw)
			if len(names) == maxEntries || size > maxBytes {
				h.note = fmt.Sprintf("cut after %d entries: a list has at most %d entries and %d bytes", len(h.items), maxEntries, maxBytes)
				return h, nil
			}
			h.add(kind, raw, names)
		}
		// A null or empty cursor ends the list, as it does for the SDKs.
		if rawjson.Text(next) == "" {
			return h, nil
		}
		if cursors[string(next)] || page == maxPages {
			h.note = fmt.Sprintf("cut after %d pages: the server's cursors lead round in a circle or on for ever", page+1)
			return h, nil
		}
		cursors[string(next)] = true
		params = slices.Concat([]byte(`{"cursor":`), next, []byte("}"))
	}
}

// add takes an entry in or puts it into quarantine.
func (h *heard) add(kind Kind, raw json.RawMessage, names map[string]bool) {
	it, bad := read(kind, raw)
	if bad == nil && names[it.name] {
		bad = &Quarantined{Name: clip(it.name, 200), Reason: "an entry before it in the list has the same name"}
	}
	switch {
	case bad == nil:
		names[it.name] = true
		h.items = append(h.items, it)
	case len(h.bad) < maxBad:
		h.bad = append(h.bad, *bad)
	default:
		h.more++
	}
}
