package host

import (
	"encoding/json"

	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/config"
	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

// This file says which session a client uses, and what is declared to it.

// lookup finds who looks after the session that a client uses at a server, for
// the relay: the member, or the client's own session. The lock of the scopes is
// never taken under h.mu.
func (h *Host) lookup(server string, c relay.Client) (relay.Server, bool) {
	for {
		m := h.memberOf(server)
		if m == nil {
			return nil, false
		}
		if c == nil || !m.server.Load().Enabled || m.sup.Ordered() {
			return m.turn, true // which says why, if there is no session
		}
		srv, ok := h.scopes.get(server, c, m.ownSession(c))
		if !ok {
			return m.turn, true // which says that it is shut down
		}
		now := h.memberOf(server)
		if now == m {
			return srv, true
		}
		h.scopes.drop(server, now, lastCalls, errChanged) // a reload came between
	}
}

// memberOf returns the member that clients see, nil if there is none.
func (h *Host) memberOf(server string) *member {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.members[server]
}

// private reports whether clients have sessions of their own with a server.
func (h *Host) private(server string) bool {
	m := h.memberOf(server)
	return m != nil && m.server.Load().Session == "client"
}

// left hears from the relay that a client is gone.
func (h *Host) left(c relay.Client) { h.scopes.left(c) }

// refresh has the shared session's lists fetched again.
func (h *Host) refresh(server string, which supervisor.Lists) {
	if m := h.memberOf(server); m != nil {
		m.sup.Refresh(which)
	}
}

// ownSession makes the supervisor of a client's own session. Its first call waits
// for the session to come up, as for any start of a server. Log and events tell
// of it as the client's.
func (m *member) ownSession(c relay.Client) ownBuilder {
	return func(o *own, handler session.Handler, lister supervisor.Lister) ownSettings {
		server := *m.server.Load()
		sc := m.h.supervision(m.cfg, server)
		sc.Transport = &transport{m: m, client: c}
		sc.Handler = redacting{handler, m.cfg}
		sc.Lister = lister
		sc.Logger = sc.Logger.With("session", o.tag, "client", o.name)
		sc.Aside = func(supervisor.State) string { return clientSession }
		t := &teller{h: m.h, cfg: m.cfg, own: o}
		sc.OnTransition, sc.OnAttempt = t.tell, t.tell
		sc.Timeouts.CallWait = max(server.CallWait, server.Timeouts.Connect)
		return ownSettings{supervisor.New(sc), m, server.IdleTimeout, server.MaxSessions}
	}
}

// redacting keeps what servers print free of what they were given.
type redacting struct {
	session.Handler
	cfg *config.Config
}

// Log implements [session.Handler].
func (r redacting) Log(line session.LogLine) {
	line.Text = r.cfg.Redact(line.Text)
	r.Handler.Log(line)
}

// declares returns the MCP ClientCapabilities for a session.
func (t *transport) declares(s *config.Server) json.RawMessage {
	switch {
	case t.client != nil:
		return t.client.Capabilities()
	case s.Session == "client":
		return relay.ProbeCapabilities()
	}
	return relay.Declare(s.Capabilities)
}

// introduces returns the MCP Implementation for a session, nil for the host's.
func (t *transport) introduces() json.RawMessage {
	if t.client != nil {
		return t.client.Info()
	}
	return nil
}

// version returns the MCP version to try first with a session, empty for the
// transport's choice. A server that speaks both eras then meets each client of
// its own in the client's era.
func (t *transport) version() string {
	if t.client != nil {
		return t.client.ProtocolVersion()
	}
	return ""
}

// selections are the endpoint blocks as the catalog takes them.
func selections(endpoints []config.Endpoint) []catalog.Selection {
	all := make([]catalog.Selection, len(endpoints))
	for i, e := range endpoints {
		all[i] = catalog.Selection{
			Name: e.Name, Servers: e.Servers,
			Tools: filter(e.Tools), Resources: filter(e.Resources), Prompts: filter(e.Prompts),
		}
	}
	return all
}
