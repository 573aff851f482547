package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"sync"

	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// A statelessClient is the sender of one request of protocol 2026-07-28, which
// says in its _meta who it is.
type statelessClient struct {
	info, caps json.RawMessage
	level      string
	id         func() string
}

var _ relay.Client = (*statelessClient)(nil)

func (c *statelessClient) ID() string                     { return c.id() }
func (c *statelessClient) ProtocolVersion() string        { return version20260728 }
func (c *statelessClient) Info() json.RawMessage          { return c.info }
func (c *statelessClient) Capabilities() json.RawMessage  { return c.caps }
func (c *statelessClient) Notify(string, json.RawMessage) {} // a request has no stream for what is not its own

// readMeta reads the description of the client from a request of version
// (SEP-2575): protocol version and capabilities are required, the client's info
// is not.
func readMeta(params json.RawMessage) (*statelessClient, *jsonrpc.Error) {
	var f [4]json.RawMessage
	if meta := rawjson.Get(params, "_meta"); meta != nil {
		_ = rawjson.Members(meta, f[:], metaVersion, metaClientInfo, metaCapabilities, metaLogLevel) // absent ones are found below
	}
	version := rawjson.Unquote(f[0])
	switch {
	case version == "":
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "missing or invalid _meta field %q", metaVersion)
	case version != version20260728:
		return nil, unsupportedVersion(version)
	case !isObject(f[2]):
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "missing or invalid _meta field %q", metaCapabilities)
	case f[1] != nil && !isObject(f[1]):
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "invalid _meta field %q", metaClientInfo)
	}
	return &statelessClient{info: f[1], caps: f[2], level: rawjson.Unquote(f[3]), id: sync.OnceValue(rand.Text)}, nil
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// levels are the log levels of MCP, the least important first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// wantsLog reports whether a request that asked for level wants a
// notifications/message. One that asked for none wants none (SEP-2575).
func wantsLog(level string, params json.RawMessage) bool {
	asked := slices.Index(levels, level)
	return asked >= 0 && slices.Index(levels, rawjson.Text(params, "level")) >= asked
}

// removed are the methods of the older eras that 2026-07-28 no longer has.
func removed(method string) bool {
	switch method {
	case "initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
		"notifications/initialized", "notifications/roots/list_changed":
		return true
	}
	return false
}

func methodNotFound(method string) *jsonrpc.Error {
	return jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "%q is not part of protocol version %s", method, version20260728)
}

// modern serves one message of the stateless era over HTTP.
func (g *Gateway) modern(w http.ResponseWriter, r *http.Request, name string, endpoint relay.Endpoint, m *jsonrpc.Message, a accept) {
	if e := checkHeaders(r.Header, m, endpoint); e != nil {
		writeError(w, http.StatusBadRequest, m.ID, e)
		return
	}
	if !m.IsRequest() {
		// Nothing of this era is asked by the server, and what a client
		// cancels is the stream that it closes. Other notifications have no
		// session to belong to.
		w.WriteHeader(http.StatusAccepted)
		return
	}
	client, e := readMeta(m.Params)
	if e != nil {
		writeError(w, http.StatusBadRequest, m.ID, e)
		return
	}
	x := &exchange{g: g, w: w, conn: r.Context(), accept: a}
	switch {
	case m.Method == "server/discover":
		x.answer(g.modernAnswer(endpoint, m, session.Reply{Result: discoverResult(endpoint)}))
		return
	case m.Method == "subscriptions/listen":
		g.listen(w, r, endpoint, client, m, a)
		return
	case removed(m.Method):
		x.answer(g.modernAnswer(endpoint, m, session.Reply{Error: methodNotFound(m.Method)}))
		return
	}
	c := x.newCall(r.Context(), m.ID)
	c.level = client.level
	defer c.cancel(nil)
	defer context.AfterFunc(g.ctx, func() { c.cancel(errShutdown) })()
	stop := x.start()
	reply, status := g.handle(c.ctx, endpoint, c, relay.Call{
		Client: client, Stream: c, Method: m.Method, Params: m.Params, Headers: paramHeaders(r.Header),
	})
	stop()
	ans := g.modernAnswer(endpoint, m, reply)
	if status != http.StatusOK {
		ans.status = status
	}
	x.answer(ans)
}

// modernAnswer completes a result with what protocol 2026-07-28 wants every
// result to say, unless it says so itself: that it is complete, who answered,
// and for how long it may be cached (SEP-2322, SEP-2575, SEP-2549). Servers of
// older eras say none of it.
func (g *Gateway) modernAnswer(endpoint relay.Endpoint, m *jsonrpc.Message, reply session.Reply) answer {
	a := answer{id: m.ID, reply: reply, status: modernStatus(reply.Error)}
	if reply.Error != nil {
		return a
	}
	if a.reply.Result == nil {
		a.reply.Result = emptyResult
	}
	var f [4]json.RawMessage
	if rawjson.Members(a.reply.Result, f[:], "resultType", "_meta", "ttlMs", "cacheScope") != nil {
		return a // no object: not ours to mend
	}
	extra := make([]byte, 0, 256)
	add := func(text string) {
		if len(extra) > 0 {
			extra = append(extra, ',')
		}
		extra = append(extra, text...)
	}
	if f[0] == nil {
		add(`"resultType":"complete"`)
	}
	if cacheable(m.Method) && (f[0] == nil || rawjson.Unquote(f[0]) == "complete") {
		if f[2] == nil {
			add(`"ttlMs":0`)
		}
		if f[3] == nil {
			add(`"cacheScope":"private"`)
		}
	}
	info := orEmpty(endpoint.Describe().ServerInfo)
	switch {
	case f[1] == nil:
		add(`"_meta":{"` + metaServerInfo + `":`)
		extra = append(append(extra, info...), '}')
	case isObject(f[1]) && rawjson.Get(f[1], metaServerInfo) == nil:
		if with, err := rawjson.Set(a.reply.Result, info, "_meta", metaServerInfo); err == nil {
			a.reply.Result = with
		}
	}
	if len(extra) > 0 {
		a.extra = extra
	}
	return a
}

// cacheable reports whether results of the method carry cache hints (SEP-2549).
func cacheable(method string) bool {
	switch method {
	case "server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read":
		return true
	}
	return false
}

// discoverResult is the answer to server/discover (SEP-2575).
func discoverResult(endpoint relay.Endpoint) json.RawMessage {
	d := endpoint.Describe()
	out := append([]byte(`{"supportedVersions":`), versionsJSON...)
	out = append(append(out, `,"capabilities":`...), orEmpty(d.Capabilities)...)
	if d.Instructions != "" {
		out = append(append(out, `,"instructions":`...), rawjson.Quote(d.Instructions)...)
	}
	return append(out, '}')
}
