package host

import (
	"fmt"
	"time"

	"github.com/hermes-host/hermes-host/host/admin"
	"github.com/hermes-host/hermes-host/host/config"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

// A succession is a member that is about to take over from another, whose
// configuration is no longer that of the server. It does when it is ready, has
// parked, or has taken too long, unless a newer configuration drops it before
// that. Nobody else waits for it: a reload that came later goes past.
type succession struct {
	m        *member
	settings []string // that are different
	since    time.Time
	dropped  chan struct{} // closed when it is to end without having taken over
	over     chan struct{} // closed when it has ended, either way
	trouble  string        // why the member was not ready then; to be read after over
}

// succeed begins the succession of a server. The caller holds h.mu.
func (h *Host) succeed(file *config.File, cfg *config.Config, s config.Server, settings []string) *succession {
	old := h.members[s.Name]
	n := &succession{
		m: h.member(file, cfg, s, old), settings: settings, since: time.Now(),
		dropped: make(chan struct{}), over: make(chan struct{}),
	}
	n.m.turn.Stage(old.turn)
	n.m.story.stage(n.m)
	h.pending[s.Name] = n
	n.m.start(nil)
	h.running.Go(func() {
		defer close(n.over)
		h.await(n)
	})
	return n
}

// await waits for a succession's member, and lets it take over.
func (h *Host) await(n *succession) {
	m := n.m
	timer := time.NewTimer(comingUp)
	defer timer.Stop()
	select {
	case <-m.settled:
	case <-timer.C:
	case <-n.dropped:
	case <-h.life.Done():
	}
	if h.life.Err() != nil { // and all sessions end
		n.trouble = errStopped.Error()
		return
	}
	h.mu.Lock()
	if h.pending[m.name] != n {
		h.mu.Unlock()
		n.trouble = errNewer.Error()
		m.cancel(errNewer)
		<-m.done
		m.story.drop(m)
		return
	}
	delete(h.pending, m.name)
	old := h.members[m.name]
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
	if n.trouble = trouble(m); err != nil {
		n.trouble = err.Error()
	}
}

// drop ends a server's succession, if there is one: the member that is there
// goes on, until another takes over from it. The caller holds h.mu.
func (h *Host) drop(server string) {
	n := h.pending[server]
	if n == nil {
		return
	}
	delete(h.pending, server)
	n.m.story.stage(nil)
	if old := h.members[server]; old != nil {
		n.m.turn.Abandon(old.turn)
	}
	close(n.dropped)
}

// trouble says why a member is not ready, "" if it is.
func trouble(m *member) string {
	s := m.sup.Status()
	switch s.State {
	case supervisor.Ready, supervisor.Disabled:
		return ""
	case supervisor.Parked:
		return m.cfg.Redact("it is parked: " + s.Reason)
	}
	text := fmt.Sprintf("it is %s, and was not ready within %s", s.State, comingUp)
	if s.LastError != "" {
		text += ": " + s.LastError
	}
	return m.cfg.Redact(text)
}

// describe says of a succession that it is under way. It may be nil.
func (n *succession) describe() *admin.Next {
	if n == nil {
		return nil
	}
	st := n.m.sup.Status()
	return &admin.Next{
		Since: n.since, Settings: n.settings, State: st.State.String(), Failed: st.Failed, LastError: n.m.cfg.Redact(st.LastError),
	}
}
