package host

import (
	"errors"
	"fmt"
	"time"

	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/config"
)

// errStopped says that nothing more can be started.
var errStopped = errors.New("the host is stopping")

// Limits of what a reload waits for.
const (
	// comingUp is how long the old session of a changed server serves while
	// the new one comes up.
	comingUp = 30 * time.Second
	// lastCalls is how long the calls of an old session may go on, and
	// lastCallsRemoved those of a server that is removed, which others may
	// wait for: it may hold what they need.
	lastCalls        = time.Minute
	lastCallsRemoved = 5 * time.Second
)

// start brings all servers of the configuration up, each on its own.
func (h *Host) start(cfg *config.Config) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return errStopped
	}
	h.cfg, h.begun = cfg, cfg
	h.redactor.Store(cfg)
	h.order = cfg.Servers
	if err := h.present(); err != nil {
		return err
	}
	for _, s := range cfg.Servers {
		m := h.member(h.file, cfg, s, nil)
		if !s.Enabled {
			m.turn.Withdraw() // nobody needs to wait for its lists
		}
		h.members[s.Name] = m
		m.start(nil)
	}
	h.running.Go(func() { h.hint(h.life) })
	return nil
}

// present gives the catalog the servers in their order, each with the settings
// of the member that clients see. The caller holds h.mu.
func (h *Host) present() error {
	entries := make([]catalog.Server, 0, len(h.order))
	for _, s := range h.order {
		if m := h.members[s.Name]; m != nil {
			s = *m.server.Load()
		}
		entries = append(entries, catalog.Server{
			Name: s.Name, Prefix: &s.Prefix,
			Tools: filter(s.Tools), Resources: filter(s.Resources), Prompts: filter(s.Prompts),
		})
	}
	if err := h.catalog.SetServers(entries); err != nil {
		return fmt.Errorf("preparing the catalog: %w", err)
	}
	if err := h.catalog.SetEndpoints(selections(h.cfg.Endpoints)); err != nil {
		return fmt.Errorf("preparing the endpoints: %w", err)
	}
	return nil
}

// stop ends all servers in parallel and waits for them.
func (h *Host) stop() {
	h.mu.Lock()
	h.stopped = true
	h.mu.Unlock()
	h.stopping.Store(true)
	h.scopes.close()
	h.end()
	h.reloading <- struct{}{} // what a reload has begun ends soon now
	<-h.reloading
	h.running.Wait()
}

// remove begins to end a server that is no longer configured. The channel is
// closed when nothing is left of it. The caller holds h.mu.
func (h *Host) remove(m *member) (gone <-chan struct{}) {
	left := make(chan struct{})
	m.turn.Retire(nil)
	h.ending[m.name] = m
	h.running.Go(func() {
		defer close(left)
		h.scopes.drop(m.name, nil, lastCallsRemoved, errRemoved)
		m.finish(lastCallsRemoved, errRemoved)
		h.mu.Lock()
		if h.ending[m.name] == m {
			delete(h.ending, m.name)
		}
		back := h.members[m.name] != nil
		h.mu.Unlock()
		if g := h.gateway.Load(); g != nil && !back {
			g.End(m.name)
		}
	})
	return left
}

var (
	errRemoved = errors.New("it was removed from the configuration")
	errChanged = errors.New("its configuration has changed")
	errNewer   = errors.New("a newer configuration has come before it took over")
)

// finish ends a retired member when its calls are over, or the time for them.
func (m *member) finish(patience time.Duration, why error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-m.turn.Idle():
	case <-timer.C:
		m.h.log.Warn("calls of an old session were cancelled", "server", m.name, "after", patience.String())
	case <-m.h.life.Done():
	}
	m.cancel(why)
	<-m.done
}

func filter(f config.Filter) catalog.Filter {
	return catalog.Filter{Allow: f.Allow, Deny: f.Deny, Rename: f.Rename, Describe: f.Describe}
}
