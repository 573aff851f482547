package relay

import (
	"encoding/json"
	"maps"

	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// A server has one session that all clients share, or, where the configuration
// says session = "client", one for each client session besides. The shared one
// is there in both cases: it is what the catalog lists, and what requests of
// protocol 2026-07-28 use, which belong to no session.

// private reports whether a client has a session of its own with a server.
func (r *Relay) private(server string, c Client) bool {
	return r.cfg.Private != nil && c.ProtocolVersion() < catalog.Stateless && r.cfg.Private(server)
}

// owner returns the client if it has a session of its own with a server, else
// nil.
func (e *endpoint) owner(server string, c Client) Client {
	if e.r.private(server, c) {
		return c
	}
	return nil
}

// find returns who looks after the session that a client uses at a server, and
// the link of that session.
func (e *endpoint) find(server string, c Client) (Server, *link, *jsonrpc.Error) {
	owner := e.owner(server, c)
	if owner != nil {
		// Leave takes the lock before it ends what the client has, so that
		// nothing is made for a client that is gone.
		e.mu.RLock()
		defer e.mu.RUnlock()
		if e.clients[c.ID()] == nil {
			return nil, nil, jsonrpc.Errorf(codeUnavailable, "the client's session has ended")
		}
	}
	srv, ok := e.r.cfg.Lookup(server, owner)
	if !ok {
		return nil, nil, unconfigured(server)
	}
	return srv, e.r.link(server, owner), nil
}

// serverOf returns who looks after a link's session, nil if nobody does.
func (r *Relay) serverOf(l *link) Server {
	if l.owner != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.bound
	}
	srv, ok := r.cfg.Lookup(l.server, nil)
	if !ok {
		return nil
	}
	return srv
}

// hears reports whether what comes over a link, and belongs to no call, may
// concern a client.
func (r *Relay) hears(l *link, c Client) bool {
	if l.owner != nil {
		return l.owner.ID() == c.ID()
	}
	return !r.private(l.server, c)
}

// audience returns the clients that hear what comes over a link.
func (r *Relay) audience(l *link) []*joined {
	var all []*joined
	for _, e := range r.with(l.server) {
		for _, j := range e.joined() {
			if r.hears(l, j) {
				all = append(all, j)
			}
		}
	}
	return all
}

// unlink forgets what was kept for a client's own sessions.
func (r *Relay) unlink(c Client) {
	if r.cfg.Private == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.links, func(at place, _ *link) bool { return at.client == c.ID() })
}

// A Scope is the relay's side of one client's own session with a server, for
// the supervisor of that session.
type Scope struct {
	r *Relay
	l *link
}

// Scope returns the relay's side of a client's own session with a server. To
// be called within Config.Lookup only.
func (r *Relay) Scope(server string, c Client) Scope { return Scope{r, r.link(server, c)} }

// Bind says who looks after the session. It must come before the session
// begins.
func (s Scope) Bind(srv Server) {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.l.bound = srv
}

// Unbind says that srv looks after the session no longer.
func (s Scope) Unbind(srv Server) {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	if s.l.bound == srv {
		s.l.bound = nil
	}
}

// Handler returns what the supervisor srv of a session takes as its handler.
func (s Scope) Handler(srv Server) session.Handler { return upstream{s.r, s.l, srv} }

// Introduce does for the client's own session what [Relay.Introduce] does.
func (s Scope) Introduce(own session.Session) { s.r.introduce(s.l, own) }

// Subscribed reports whether the client waits for updates of resources, so
// that the session is of use even without a call.
func (s Scope) Subscribed() bool {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	return len(s.l.subs) > 0
}

// Capabilities that the host can declare to a session that clients share, by
// the words of the configuration.
var declarable = map[string][]string{
	"elicitation.form": {"elicitation", "form"},
	"elicitation.url":  {"elicitation", "url"},
	"sampling":         {"sampling"},
	"sampling.tools":   {"sampling", "tools"},
}

// Declare returns the MCP ClientCapabilities for words of the configuration.
// Other words are left out.
//
// They can be declared to a session that all clients share, since a question that
// comes while one client's call is in flight finds its way to that client; many
// servers hide tools from clients that declare neither elicitation nor sampling.
// A client that can't be asked answers with an error, as it would to the server
// itself. There is no word for roots: they are one client's, and servers take
// them as settings for all that they do.
func Declare(words []string) json.RawMessage {
	out := json.RawMessage(`{}`)
	for _, word := range words {
		path := declarable[word]
		if path == nil || rawjson.Get(out, path...) != nil {
			continue
		}
		if with, err := rawjson.Set(out, []byte(`{}`), path...); err == nil {
			out = with
		}
	}
	return out
}

// ProbeCapabilities returns what the host declares to the shared session of a
// server whose clients have sessions of their own: everything, so that it
// lists tools that depend on any of it. Roots are an empty list there.
func ProbeCapabilities() json.RawMessage {
	return json.RawMessage(`{"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true},"sampling":{"tools":{}}}`)
}
