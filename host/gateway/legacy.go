package gateway

import (
	"encoding/json"
	"net/http"

	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

var (
	emptyResult = json.RawMessage(`{}`)

	errNoSessionID = jsonrpc.Errorf(codeServer, "the Mcp-Session-Id header is missing; begin with an initialize request")
	errNoSession   = jsonrpc.Errorf(codeSessionNotFound, "session not found; begin a new one with an initialize request")
	errNoRoom      = jsonrpc.Errorf(codeServer, "too many sessions; try again later")
)

// legacy serves one message of the era of sessions.
func (g *Gateway) legacy(w http.ResponseWriter, r *http.Request, name string, endpoint relay.Endpoint, m *jsonrpc.Message, a accept) {
	if e := legacyVersion(r.Header); e != nil {
		writeError(w, http.StatusBadRequest, m.ID, e)
		return
	}
	if m.Method == "initialize" && m.IsRequest() {
		g.initialize(w, r, name, endpoint, m, a)
		return
	}
	s := g.session(w, r, name, m.ID)
	if s == nil {
		return
	}
	defer s.release()
	if m.IsRequest() {
		g.legacyCall(w, r, s, m, a)
		return
	}
	g.legacyOther(s, m)
	w.WriteHeader(http.StatusAccepted)
}

// session finds and acquires the session of a request. If there is none it
// answers the request and returns nil.
func (g *Gateway) session(w http.ResponseWriter, r *http.Request, name string, id json.RawMessage) *legacySession {
	key := r.Header.Get(headerSession)
	if key == "" {
		writeError(w, http.StatusBadRequest, id, errNoSessionID)
		return nil
	}
	s := g.sessions.find(key, name)
	if s == nil || !s.acquire() {
		writeError(w, http.StatusNotFound, id, errNoSession)
		return nil
	}
	return s
}

// initialize opens a session. A session id that came along is taken for a
// leftover of an ended session, unless that session still lives.
func (g *Gateway) initialize(w http.ResponseWriter, r *http.Request, name string, endpoint relay.Endpoint, m *jsonrpc.Message, a accept) {
	if old := r.Header.Get(headerSession); old != "" && g.sessions.find(old, name) != nil {
		writeError(w, http.StatusBadRequest, m.ID, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "the session is already initialized"))
		return
	}
	result, version, e := initializeResult(endpoint, m.Params)
	x := exchange{g: g, w: w, conn: r.Context(), accept: a}
	if e != nil {
		x.answer(answer{id: m.ID, reply: session.Reply{Error: e}})
		return
	}
	s := g.sessions.open(name, endpoint, version, m.Params)
	if s == nil {
		w.Header().Set("Retry-After", "60")
		writeError(w, http.StatusServiceUnavailable, m.ID, errNoRoom)
		return
	}
	defer s.release()
	w.Header()[headerSession] = []string{s.id}
	x.answer(answer{id: m.ID, reply: session.Reply{Result: result}})
}

// initializeResult is the answer to initialize (MCP 2025-11-25, lifecycle), and
// the version that it settles on.
func initializeResult(endpoint relay.Endpoint, params json.RawMessage) (json.RawMessage, string, *jsonrpc.Error) {
	asked := rawjson.Text(params, "protocolVersion")
	if asked == "" {
		return nil, "", jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "initialize needs the params protocolVersion, capabilities and clientInfo")
	}
	version := negotiate(asked)
	d := endpoint.Describe()
	out := append([]byte(`{"protocolVersion":`), rawjson.Quote(version)...)
	out = append(append(out, `,"capabilities":`...), orEmpty(d.Capabilities)...)
	out = append(append(out, `,"serverInfo":`...), orEmpty(d.ServerInfo)...)
	if d.Instructions != "" {
		out = append(append(out, `,"instructions":`...), rawjson.Quote(d.Instructions)...)
	}
	return append(out, '}'), version, nil
}

func orEmpty(obj json.RawMessage) json.RawMessage {
	if len(obj) == 0 {
		return emptyResult
	}
	return obj
}

// own answers the requests of a session that never reach the endpoint.
func own(method string) (session.Reply, bool) {
	switch method {
	case "ping":
		return session.Reply{Result: emptyResult}, true
	case "server/discover", "subscriptions/listen":
		return session.Reply{Error: jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "%s needs protocol version %s", method, version20260728)}, true
	case "initialize":
		return session.Reply{Error: jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "the session is already initialized")}, true
	}
	return session.Reply{}, false
}

// legacyCall serves one request of a session.
func (g *Gateway) legacyCall(w http.ResponseWriter, r *http.Request, s *legacySession, m *jsonrpc.Message, a accept) {
	x := &exchange{g: g, w: w, conn: r.Context(), accept: a, s: s, prime: s.version >= version20251125}
	if reply, ok := own(m.Method); ok {
		x.answer(answer{id: m.ID, reply: reply})
		return
	}
	c := x.newCall(x.s.ctx, m.ID)
	defer c.cancel(nil)
	if e := s.begin(c); e != nil {
		writeError(w, statusOf(e), m.ID, e)
		return
	}
	stop := x.start()
	reply, status := g.handle(c.ctx, s.endpoint, c, relay.Call{Client: s, Stream: c, Method: m.Method, Params: m.Params})
	stop()
	s.finish(c)
	x.answer(answer{id: m.ID, reply: reply, status: status})
}

// statusOf is the HTTP status of an error of begin.
func statusOf(e *jsonrpc.Error) int {
	switch e.Code {
	case codeSessionNotFound:
		return http.StatusNotFound
	case codeServer:
		return http.StatusTooManyRequests
	}
	return http.StatusBadRequest
}

// legacyOther takes a notification or an answer of the client.
func (g *Gateway) legacyOther(s *legacySession, m *jsonrpc.Message) {
	switch {
	case m.IsResponse():
		if !s.asked.answer(m) {
			g.log.Debug("an answer of the client matches no question", "session", s.tag())
		}
	case m.Method == "notifications/initialized":
	case m.Method == "notifications/cancelled":
		s.abandon(m.Params)
	default:
		s.endpoint.Notification(s.ctx, s, m.Method, m.Params)
	}
}
