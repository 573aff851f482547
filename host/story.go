package host

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-host/hermes-host/host/admin"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

// A story is what log and events tell of a server, over all the members that
// look after it, one after the other. While there are several the state of one
// is the server's, and whoever alerts on the last state that was told is right;
// what happens to the others is told as being of another session.
type story struct {
	generations atomic.Uint64 // of the server's sessions, over all members

	mu   sync.Mutex
	now  *member          // whose state is the server's
	next *member          // is about to take over; nil: none
	told supervisor.State // the latest that was told of the server
	by   *member          // whose it was; nil: nothing was told yet
}

// What sessions are called whose state is not the server's.
const (
	newSession     = "new session"     // of a member that is about to take over
	earlierSession = "earlier session" // of one whose configuration is no longer that of the server
)

// aside implements [supervisor.Config.Aside] for a member. One that is about to
// take over does so as soon as it is ready or parked, so these states are told as
// the server's.
func (s *story) aside(m *member, to supervisor.State) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case m == s.now, m == s.next && (to == supervisor.Ready || to == supervisor.Parked):
		s.told, s.by = to, m
		return ""
	case m == s.next:
		return newSession
	}
	return earlierSession
}

// stage names the member that is about to take over, nil if none is any more.
func (s *story) stage(m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = m
}

// handOver makes a member the one whose state is the server's. If that is not the
// one that was told last, it is told now.
func (s *story) handOver(m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.next = m, nil
	s.retell(errChanged.Error())
}

// drop hears that a member has ended that was to take over, and has not. What was
// told of it last is no longer so.
func (s *story) drop(m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == m {
		s.retell(errNewer.Error())
	}
}

// retell tells the state of the server if it is not the one that was told last.
// The caller holds s.mu.
func (s *story) retell(reason string) {
	m := s.now
	st := m.sup.Status()
	if s.by == m && s.told == st.State {
		return
	}
	if st.State == supervisor.Disabled {
		reason = st.Reason
	}
	e := admin.Event{
		At: time.Now(), Server: m.name, From: s.told.String(), To: st.State.String(),
		Reason: m.cfg.Redact(reason), Error: m.cfg.Redact(st.LastError), Generation: st.Generation, Attempt: st.Failed,
	}
	args := []any{"server", m.name, "state", st.State, "generation", st.Generation, "attempt", st.Failed, "reason", e.Reason}
	if !st.NextAttempt.IsZero() {
		e.Next = &st.NextAttempt
		args = append(args, "next", max(0, time.Until(st.NextAttempt)).Round(time.Millisecond).String())
	}
	if e.Error != "" {
		args = append(args, "error", e.Error)
	}
	s.told, s.by = st.State, m
	m.h.events.Add(func(seq uint64) admin.Event { e.Seq = seq; return e })
	m.h.log.Info("server "+e.To, args...)
}
