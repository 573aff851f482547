package supervisor

import (
	"context"
	"time"

	"github.com/hermes-host/hermes-host/host/session"
)

// health is the checking of one session.
type health struct {
	at      time.Time // the next keep-alive check; zero: none
	running bool
	suspect bool // the check under way, or due, was asked for: calls in flight do not excuse silence
}

// rest plans the next keep-alive check.
func (h *health) rest(every time.Duration) {
	if every > 0 {
		h.at = time.Now().Add(every)
	}
}

// keepAlive checks a session that has nothing else to do. One with calls in
// flight is left alone: a busy server may answer nothing else, and its calls
// have their own limits.
func (s *Supervisor) keepAlive() {
	s.health.at = time.Time{}
	if s.cur.pending.Load() > 0 || s.listing {
		s.health.rest(s.cfg.KeepAlive)
		return
	}
	s.check()
}

// apply checks a session that somebody has doubts about.
func (m suspect) apply(s *Supervisor) {
	if s.cur != nil && s.cur.gen == m.gen && s.cur.listed {
		s.health.suspect = true
		s.check()
	}
}

// check asks the session for a sign of life in a worker, one at a time. The
// session asks in more than one way: some healthy servers ignore ping.
func (s *Supervisor) check() {
	if s.health.running {
		return
	}
	s.health.running = true
	l := s.cur
	s.work(func() message {
		ctx, cancel := context.WithTimeout(l.ctx, s.cfg.Timeouts.Health)
		defer cancel()
		return checked{l, l.sess.Healthy(ctx)}
	})
}

// apply keeps a session that lives and replaces one that does not.
func (m checked) apply(s *Supervisor) {
	if m.live != s.cur {
		return
	}
	asked := s.health.suspect
	s.health.running, s.health.suspect = false, false
	switch {
	case m.live.dead(): // ended says so
	case m.err == nil:
		m.live.checks.Add(1)
		s.publish() // calls wait for the verdict
		s.health.rest(s.cfg.KeepAlive)
	case !asked && m.live.pending.Load() > 0:
		s.health.rest(s.cfg.KeepAlive)
	default:
		s.drop(&session.End{Class: session.Gone, Message: "no sign of life: " + m.err.Error(), Retryable: true})
	}
}
