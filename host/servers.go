package host

import (
	"context"
	"fmt"

	"github.com/hermes-host/hermes-host/breaker"
	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/config"
	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

// member is a server that the host looks after.
type member struct {
	server config.Server
	sup    *supervisor.Supervisor
	cancel context.CancelFunc
	done   chan struct{} // closed when the supervisor has returned
}

// start brings all servers of the configuration up, each on its own.
func (h *Host) start(cfg *config.Config) error {
	entries := make([]catalog.Server, len(cfg.Servers))
	for i, s := range cfg.Servers {
		entries[i] = catalog.Server{
			Name: s.Name, Prefix: &s.Prefix,
			Tools: filter(s.Tools), Resources: filter(s.Resources), Prompts: filter(s.Prompts),
		}
	}
	if err := h.catalog.SetServers(entries); err != nil {
		return fmt.Errorf("preparing the catalog: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range cfg.Servers {
		m := h.member(cfg, s)
		h.members[s.Name] = m
		ctx, cancel := context.WithCancel(context.Background())
		m.cancel = cancel
		go func() {
			defer close(m.done)
			if err := m.sup.Run(ctx); err != nil && ctx.Err() == nil {
				h.log.Error("the supervisor has ended", "server", s.Name, "error", err)
			}
		}()
	}
	return nil
}

// member builds what a server needs, without starting it.
func (h *Host) member(cfg *config.Config, s config.Server) *member {
	handle, _ := h.catalog.Handle(s.Name)
	if !s.Enabled {
		handle.Withdraw() // nobody needs to wait for its lists
	}
	return &member{
		server: s,
		done:   make(chan struct{}),
		sup: supervisor.New(supervisor.Config{
			Name:      s.Name,
			Disabled:  !s.Enabled,
			Transport: &transport{h: h, cfg: cfg, server: s},
			Handler:   h.relay.Handler(s.Name),
			Lister:    h.relay.Lister(s.Name, handle),
			Gate:      h.gate,
			Logger:    h.log,
			Breaker:   breaker.Config{Threshold: s.Breaker.Threshold, Cooldown: s.Breaker.Cooldown},
			Retry:     supervisor.Retry{Base: s.Retry.Base, Max: s.Retry.Max, Budget: s.Retry.Budget},
			Revive:    supervisor.Revive{Min: s.Revive.Min, Max: s.Revive.Max},
			CrashLoop: supervisor.CrashLoop{Deaths: s.CrashLoop.Deaths, Window: s.CrashLoop.Window, Proven: s.CrashLoop.Proven},
			Timeouts: supervisor.Timeouts{
				Connect: s.Timeouts.Connect, List: s.Timeouts.List, Call: s.Timeouts.Call,
				Close: s.Timeouts.Close, CallWait: s.CallWait, Health: s.Timeouts.Health,
			},
			KeepAlive: s.KeepAlive,
		}),
	}
}

// stop ends all servers in parallel and waits for them.
func (h *Host) stop() {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, m := range h.members {
		m.cancel()
	}
	for _, m := range h.members {
		<-m.done
	}
}

// lookup finds the supervisor of a server, for the relay.
func (h *Host) lookup(server string, _ relay.Client) (relay.Server, bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	m, ok := h.members[server]
	if !ok {
		return nil, false
	}
	return m.sup, true
}

// Status returns the state of each server, by name.
func (h *Host) Status() map[string]supervisor.Status {
	h.mu.RLock()
	defer h.mu.RUnlock()
	all := make(map[string]supervisor.Status, len(h.members))
	for name, m := range h.members {
		all[name] = m.sup.Status()
	}
	return all
}

func filter(f config.Filter) catalog.Filter {
	return catalog.Filter{Allow: f.Allow, Deny: f.Deny, Rename: f.Rename}
}
