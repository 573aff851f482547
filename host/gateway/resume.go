package gateway

import (
	"context"
	"net/http"
	"strings"

	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

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
		if from = n + 1; st.spent(from) {
			// The one other answer that the specification has for a GET. A
			// stream that ends at once would be taken for one that broke, by
			// clients that don't know an error for an answer, and be resumed
			// for ever.
			w.Header().Set("Allow", corsMethods)
			writeError(w, http.StatusMethodNotAllowed, nil, jsonrpc.Errorf(codeServer, "the stream of this Last-Event-ID is complete, and nothing on it came later"))
			return
		}
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
	if err := st.pump(ctx, ew, first, from, g.cfg.KeepAlive); err != nil {
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
