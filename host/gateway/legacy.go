package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// maxBatch bounds the messages of one batch.
const maxBatch = 100

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

// legacyBatch serves a batch, which only protocol 2025-03-26 has.
func (g *Gateway) legacyBatch(w http.ResponseWriter, r *http.Request, name string, endpoint relay.Endpoint, body []byte, a accept) {
	if e := legacyVersion(r.Header); e != nil {
		writeError(w, http.StatusBadRequest, nil, e)
		return
	}
	all, err := rawjson.Elements(body)
	if err != nil {
		writeError(w, http.StatusBadRequest, nil, parseError(err))
		return
	}
	s := g.session(w, r, name, nil)
	if s == nil {
		return
	}
	defer s.release()
	if s.version != version20250326 || len(all) == 0 || len(all) > maxBatch {
		writeError(w, http.StatusBadRequest, nil, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest,
			"batches of 1 to %d messages are part of protocol version %s only; this session has %s", maxBatch, version20250326, s.version))
		return
	}
	x := &exchange{g: g, w: w, conn: r.Context(), accept: a, s: s, batch: true}
	g.runBatch(x, all)
}

// runBatch takes the messages of a batch, in their order as far as they are no
// requests; those run side by side.
func (g *Gateway) runBatch(x *exchange, all []json.RawMessage) {
	var running sync.WaitGroup
	defer x.endBatch()
	defer x.start()()
	defer running.Wait()
	for _, raw := range all {
		m, err := jsonrpc.Parse(raw)
		if err != nil {
			x.collect(jsonrpc.Message{ID: m.ID, Error: parseError(err)})
			continue
		}
		if !m.IsRequest() {
			g.legacyOther(x.s, &m)
			continue
		}
		if reply, ok := own(m.Method); ok {
			x.collect(jsonrpc.Message{ID: m.ID, Result: reply.Result, Error: reply.Error})
			continue
		}
		c := x.newCall(x.s.ctx, m.ID)
		if e := x.s.begin(c); e != nil {
			x.collect(jsonrpc.Message{ID: m.ID, Error: e})
			continue
		}
		running.Go(func() {
			defer c.cancel(nil)
			reply, _ := g.handle(c.ctx, x.s.endpoint, c, relay.Call{Client: x.s, Stream: c, Method: m.Method, Params: m.Params})
			x.s.finish(c)
			x.collect(jsonrpc.Message{ID: m.ID, Result: reply.Result, Error: reply.Error})
		})
	}
}

// collect takes an answer of a batch.
func (x *exchange) collect(m jsonrpc.Message) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stream == nil && !x.accept.json {
		x.upgrade()
	}
	if x.stream != nil {
		x.stream.add(&m)
		return
	}
	x.answers = append(x.answers, m)
}

// endBatch writes the collected answers, or completes the stream that they
// went to.
func (x *exchange) endBatch() {
	x.mu.Lock()
	x.over = true
	st := x.stream
	x.mu.Unlock()
	switch {
	case st != nil:
		st.close()
		<-x.pumped
	case len(x.answers) == 0:
		x.w.WriteHeader(http.StatusAccepted)
	default:
		out := []byte{'['}
		for i := range x.answers {
			if i > 0 {
				out = append(out, ',')
			}
			out = x.answers[i].Append(out)
		}
		h := x.w.Header()
		h["Content-Type"] = typeJSON
		_, _ = x.w.Write(append(out, ']')) // a client that is gone needs no answer
	}
}

// get serves the session's own stream, or resumes the one that Last-Event-ID
// names.
func (g *Gateway) get(w http.ResponseWriter, r *http.Request, name string) {
	if r.Header.Get(headerVersion) >= version20260728 {
		methodNotAllowed(w, http.MethodPost) // SEP-2575 has no standalone stream
		return
	}
	if !accepts(r.Header).stream {
		writeError(w, http.StatusNotAcceptable, nil, jsonrpc.Errorf(codeServer, "Accept must list text/event-stream"))
		return
	}
	if e := legacyVersion(r.Header); e != nil {
		writeError(w, http.StatusBadRequest, nil, e)
		return
	}
	s := g.session(w, r, name, nil)
	if s == nil {
		return
	}
	defer s.release()

	st, from := s.own, -1
	if id := strings.TrimSpace(r.Header.Get(headerEventID)); id != "" {
		key, n, ok := parseEventID(id)
		if ok {
			st = s.resume(key)
		}
		if !ok || st == nil {
			// Not 404, which would say that the session is unknown.
			writeError(w, http.StatusBadRequest, nil, jsonrpc.Errorf(codeServer, "the stream of this Last-Event-ID can't be resumed"))
			return
		}
		from = n + 1
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	if st == s.own {
		defer context.AfterFunc(g.serving, func() { cancel(errShutdown) })()
	}
	ew := newEventWriter(w)
	first := []byte(": ok\n\n") // proxies pass headers on with the first bytes
	if s.version >= version20251125 && st == s.own && from < 0 {
		first = appendPriming(nil, ownStream, st.position())
	}
	if ew.write(first) != nil {
		return
	}
	if err := st.pump(ctx, ew, from, g.cfg.KeepAlive); err != nil {
		g.log.Debug("an event stream ended", "session", s.tag(), "reason", err)
	}
}

// delete ends a session on its client's wish.
func (g *Gateway) delete(w http.ResponseWriter, r *http.Request, name string) {
	if r.Header.Get(headerVersion) >= version20260728 {
		methodNotAllowed(w, http.MethodPost)
		return
	}
	if e := legacyVersion(r.Header); e != nil {
		writeError(w, http.StatusBadRequest, nil, e)
		return
	}
	s := g.session(w, r, name, nil)
	if s == nil {
		return
	}
	defer s.release()
	g.sessions.remove(s)
	s.end(errSessionDeleted)
	w.WriteHeader(http.StatusNoContent)
}
