package host

import (
	"context"
	"io"
	"os"

	"github.com/hermes-host/hermes-host/host/admin"
	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/config"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

var _ admin.Host = (*Host)(nil)

// operate serves operators and watches the file until the function that it
// returns is called, which waits for the end of both.
func (h *Host) operate(cfg *config.Config) (stop func()) {
	shared := h.Info().URL != ""
	ctx, cancel := context.WithCancel(h.life)
	if h.settings.Watch && h.settings.Load != nil {
		h.watch(ctx, cfg.Path)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if h.settings.Admin {
			h.admin(ctx, cfg.Path, shared)
		}
	}()
	return func() {
		cancel()
		<-served
	}
}

// admin serves the admin socket until ctx ends. A host that can't have one
// works without.
func (h *Host) admin(ctx context.Context, path string, shared bool) {
	socket, err := admin.Listen(admin.Dir(h.settings.RunDir), path, shared)
	if err != nil {
		h.log.Warn("no admin socket: status, reload and the like don't reach this host", "error", err)
		return
	}
	defer socket.Close()
	if shared && !socket.Shared {
		h.log.Warn("another host runs with this configuration; stdio clients join that one", "socket", socket.Path)
	} else {
		h.log.Debug("admin socket", "path", socket.Path)
	}
	if err := admin.Serve(ctx, socket.Listener, h, h.log.Named("admin")); err != nil {
		h.log.Error("the admin socket has ended", "error", err)
	}
}

// Info implements [admin.Host].
func (h *Host) Info() admin.Info {
	h.mu.RLock()
	defer h.mu.RUnlock()
	info := admin.Info{Version: h.settings.Version, PID: os.Getpid(), URL: h.url, Started: h.began}
	if h.cfg != nil {
		info.Config = h.cfg.Path
	}
	return info
}

// Status returns the state of the host and all its servers. It implements
// [admin.Host].
func (h *Host) Status() admin.Status {
	s := admin.Status{Host: h.Info(), Ready: h.ready(), Stopping: h.stopping.Load(), Reload: h.outcome.Load(), Missing: h.missing.Load()}
	if g := h.gateway.Load(); g != nil {
		s.Clients = g.Sessions() + int(h.joined.Load())
	}
	offers := map[string]catalog.Status{}
	for _, c := range h.catalog.Status() {
		offers[c.Server] = c
	}
	crowds := h.scopes.crowds()
	idle, chosen := h.catalog.Unmatched()
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.cfg != nil && h.begun != nil {
		s.Restart = h.restart(h.cfg)
	}
	s.Servers = make([]admin.Server, 0, len(h.order))
	for _, server := range h.order {
		if m := h.members[server.Name]; m != nil { // a new one, when it starts
			now := m.status(offers[server.Name])
			m.add(&now, crowds[m])
			now.Catalog.Unmatched = unmatched(h.redactAs(m), idle[server.Name])
			now.Advice = advices(now.Advice, unmatchedAdvice(h.redactAs(m), listedByServer, idle[server.Name]))
			now.Next = h.pending[server.Name].describe()
			s.Servers = append(s.Servers, now)
		}
	}
	if h.cfg != nil {
		for _, e := range h.cfg.Endpoints {
			s.Endpoints = append(s.Endpoints, admin.Endpoint{
				Name: e.Name, Place: e.Where(),
				Unmatched: unmatched(h.cfg.Redact, chosen[e.Name]), Advice: unmatchedAdvice(h.cfg.Redact, offeredByServers, chosen[e.Name]),
			})
		}
	}
	return s
}

// status describes a member. Texts that come from elsewhere are searched for
// secrets.
func (m *member) status(c catalog.Status) admin.Server {
	server, now := *m.server.Load(), m.sup.Status()
	s := admin.Server{
		Name: m.name, Transport: server.Transport.Kind, Settings: server.Transport.Display, Place: server.Where(),
		State: now.State.String(), Since: now.Since, Changed: now.Changed, Reason: m.cfg.Redact(now.Reason),
		Generation: now.Generation, Starts: now.Starts, Failed: now.Failed, Left: now.Left,
		Authorize: now.NeedsAuthorization,
		Breaker: admin.Breaker{
			State: now.Breaker.State.String(), Failures: now.Breaker.Failures, RetryAfter: now.Breaker.RetryAfter.Seconds(),
		},
		Advice:    m.advice(),
		LastError: m.cfg.Redact(now.LastError),
		Calls:     admin.Calls{Total: now.Calls, Failed: now.Failures, InFlight: now.InFlight, Replayed: now.Replayed},
		Catalog: admin.Catalog{
			Live: c.Live, Tools: c.Tools, Resources: c.Resources, Templates: c.Templates, Prompts: c.Prompts,
			Filtered: c.Filtered, Notes: c.Notes,
		},
	}
	if now.State == supervisor.Parked {
		s.Waits = now.Parked.String()
	}
	if !now.NextAttempt.IsZero() && now.State != supervisor.Ready {
		s.NextAttempt = &now.NextAttempt
	}
	if t := now.Trouble; t.Kind != supervisor.NoTrouble {
		s.Trouble = &admin.Trouble{
			Kind: t.Kind.String(), Since: t.Since, Text: t.Kind.Headline(), Error: m.cfg.Redact(t.Text), Cure: t.Kind.Cure(),
		}
	}
	if !now.LastErrorAt.IsZero() {
		s.LastErrorAt = &now.LastErrorAt
	}
	if now.Session != nil {
		s.Sessions = 1
		s.Peer = &admin.Peer{
			Protocol: now.Session.ProtocolVersion, Info: now.Session.ServerInfo,
			PID: now.Session.Process, Plugin: now.Session.Plugin,
		}
	}
	for _, q := range c.Quarantined {
		s.Catalog.Quarantined = append(s.Catalog.Quarantined, admin.Problem{List: q.List, Name: q.Name, Reason: q.Reason})
	}
	for _, q := range c.Shadowed {
		reason := "its name clashes with another server's"
		if q.By != "" {
			reason = "server " + q.By + " comes first with it"
		}
		reason += "; it is served at /mcp/" + m.name
		s.Catalog.Shadowed = append(s.Catalog.Shadowed, admin.Problem{List: q.List, Name: q.Name, Reason: reason})
	}
	for _, r := range c.Renamed {
		s.Catalog.Renamed = append(s.Catalog.Renamed, admin.Renamed(r))
	}
	return s
}

// Reconnect asks for new sessions of the servers that are named, of all that
// are enabled if none is, on behalf of whoever by names. They begin without what
// earlier ones have learnt of the server: it may be another by now. It returns
// at once with their names; an *[admin.Error] says that nothing was done. It
// implements [admin.Host].
func (h *Host) Reconnect(by string, servers ...string) ([]string, error) {
	return h.instruct(servers, func(m *member) { m.memory.Forget() }, func(s *supervisor.Supervisor) { s.Reconnect(by) })
}

// instruct gives an order to the supervisors of servers, of all that are enabled
// if none is named: to that of the session that clients share, and to those of
// clients' own sessions. Before that it calls prepare for each server. It returns
// the names.
func (h *Host) instruct(servers []string, prepare func(*member), give func(*supervisor.Supervisor)) ([]string, error) {
	names, err := h.instructShared(servers, prepare, give)
	for _, name := range names { // not under h.mu
		h.scopes.order(name, give)
	}
	return names, err
}

// instructShared is the part of instruct for sessions that are shared.
func (h *Host) instructShared(servers []string, prepare func(*member), give func(*supervisor.Supervisor)) ([]string, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.stopped {
		return nil, stopping()
	}
	names := servers
	if len(servers) == 0 {
		names = []string{}
		for _, s := range h.order {
			if m := h.members[s.Name]; m != nil && m.server.Load().Enabled {
				names = append(names, s.Name)
			}
		}
	}
	for _, name := range names {
		if err := h.orderable(name); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		m := h.members[name]
		prepare(m)
		give(m.sup)
		if n := h.pending[name]; n != nil { // it is the server's from the next moment on
			prepare(n.m)
			give(n.m.sup)
		}
	}
	return names, nil
}

// Park ends the session of a server until somebody reconnects it, on behalf of
// whoever by names. An *[admin.Error] says that nothing was done. It
// implements [admin.Host].
func (h *Host) Park(by, server string) error {
	_, err := h.instruct([]string{server}, func(*member) {}, func(s *supervisor.Supervisor) { s.Park("parked by " + by) })
	return err
}

// orderable returns why a server can't be ordered about. The caller holds h.mu.
func (h *Host) orderable(name string) error {
	m := h.members[name]
	if m == nil {
		known := make([]string, 0, len(h.order))
		for _, s := range h.order {
			known = append(known, s.Name)
		}
		return admin.Unknown(name, known)
	}
	if !m.server.Load().Enabled {
		return &admin.Error{Code: admin.Disabled, Message: "server \"" + name + "\" is disabled in the configuration"}
	}
	return nil
}

// Joinable implements [admin.Host].
func (h *Host) Joinable() error {
	switch {
	case h.stopping.Load():
		return stopping()
	case h.Info().URL == "":
		return &admin.Error{Code: admin.Unsupported, Message: "this host belongs to one client and ends with it"}
	}
	return nil
}

// Join implements [admin.Host]: it serves one more client, which sees the
// aggregate of all servers.
func (h *Host) Join(ctx context.Context, conn io.ReadWriteCloser) error {
	h.joined.Add(1)
	defer h.joined.Add(-1)
	h.log.Debug("a stdio client has joined")
	all, _ := h.relay.Endpoint("")
	err := h.gateway.Load().ServeStdio(ctx, conn, conn, all)
	h.log.Debug("a stdio client has left", "error", err)
	return err
}
