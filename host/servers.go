package host

import (
	"context"
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
		m.start()
	}
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

// remove ends servers that are no longer configured, and returns when nothing
// is left of them.
func (h *Host) remove(members []*member) {
	for _, m := range members {
		m.turn.Retire(nil)
	}
	for _, m := range members {
		h.scopes.drop(m.name, nil, lastCallsRemoved, errRemoved)
		h.running.Go(func() { m.finish(lastCallsRemoved, errRemoved) })
	}
	for _, m := range members {
		<-m.done
	}
}

var (
	errRemoved = errors.New("it was removed from the configuration")
	errChanged = errors.New("its configuration has changed")
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

// replace lets a new member take over from another when it is ready, has
// parked, or takes too long. It returns why it was not ready.
func (h *Host) replace(old, m *member) string {
	m.turn.Stage(old.turn)
	m.story.stage(m)
	h.mu.Lock()
	if h.stopped {
		h.mu.Unlock()
		return errStopped.Error()
	}
	m.start()
	h.mu.Unlock()

	wait, cancel := context.WithTimeout(h.life, comingUp)
	defer cancel()
	select {
	case <-m.settled:
	case <-wait.Done():
	}
	h.mu.Lock()
	h.members[m.name] = m
	old.turn.Retire(m.turn)
	m.turn.Promote()
	m.story.handOver(m)
	if !m.server.Load().Enabled {
		m.turn.Withdraw()
	}
	err := h.present()
	h.mu.Unlock()
	h.scopes.drop(m.name, m, lastCalls, errChanged)
	h.running.Go(func() { old.finish(lastCalls, errChanged) })
	if err != nil {
		return err.Error()
	}
	return trouble(m)
}

func filter(f config.Filter) catalog.Filter {
	return catalog.Filter{Allow: f.Allow, Deny: f.Deny, Rename: f.Rename, Describe: f.Describe}
}
