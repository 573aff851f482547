package supervisor

import (
	"context"
	"errors"
	"time"

	"github.com/hermes-host/hermes-host/host/session"
)

const (
	// settle is how long a changed list waits for others to join it.
	settle = 50 * time.Millisecond
	// refreshGap is the pause between two fetches.
	refreshGap = time.Second
)

// refresh is what is to be fetched again. It dies with its session: the next
// one fetches everything.
type refresh struct {
	dirty  Lists
	at     time.Time // when to fetch; zero: not now
	ended  time.Time // of the last fetch
	failed int       // fetches in a row
	said   string    // the error logged last
}

// list fetches lists in a worker.
func (s *Supervisor) list(which Lists) {
	l := s.cur
	s.listing, s.withdraw = true, false
	s.work(func() message {
		ctx, cancel := context.WithTimeout(l.ctx, s.cfg.Timeouts.List)
		defer cancel()
		err := s.cfg.Lister.List(ctx, l.sess, which)
		if err != nil && ctx.Err() == context.DeadlineExceeded {
			err = &session.End{Class: session.Gone, Retryable: true,
				Message: "no answer within " + s.cfg.Timeouts.List.String()}
		}
		return listed{l, which, err}
	})
}

// apply makes a session ready, or plans what a failed fetch needs.
func (m listed) apply(s *Supervisor) {
	s.listing = false
	if s.withdraw {
		s.unlist()
	}
	switch {
	case m.live != s.cur:
	case m.live.dead(): // ended says so next, and why
	case m.live.listed:
		s.refreshed(m)
	default:
		if _, partial := errors.AsType[*PartialError](m.err); m.err != nil && !partial {
			s.drop(endOf("listing what it offers", m.err))
			return
		}
		s.ready(m.live)
		if m.err != nil {
			s.refreshed(m)
		}
	}
}

// ready ends the way up.
func (s *Supervisor) ready(l *live) {
	l.listed = true
	s.again = false
	s.pace.arrived()
	s.fresh.ended = time.Now()
	s.fire(arrived, "session initialised and listed", nil)
	s.plan()
	s.health.rest(s.cfg.KeepAlive)
}

// refreshed ends a fetch on a ready session. A failed one is repeated, at the
// pace of reconnects; the session goes on with its old lists.
func (s *Supervisor) refreshed(m listed) {
	s.fresh.ended = time.Now()
	if m.err == nil {
		s.fresh.failed, s.fresh.said = 0, ""
		m.live.pulse.beat()
		s.well()
		s.plan()
		return
	}
	if f, ok := errors.AsType[*session.Failure](m.err); ok && f.Reason == session.NeedsAuth {
		m.live.noAuth.Store(true)
		s.inTrouble(Refused, f.Message, time.Now())
	}
	if partial, ok := errors.AsType[*PartialError](m.err); ok {
		m.which = partial.Lists
	}
	s.fresh.dirty |= m.which
	wait := grow(s.cfg.Retry.Base, s.cfg.Retry.Max, s.fresh.failed)
	s.fresh.failed++
	s.fresh.at = time.Now().Add(wait)
	if text := m.err.Error(); text != s.fresh.said {
		s.fresh.said = text
		s.log.Warn("refreshing lists failed", "generation", s.gen, "attempt", s.fresh.failed, "next", wait.String(), "error", text)
	}
}

// apply notes changed lists.
func (m stale) apply(s *Supervisor) {
	if s.cur != nil && m.gen == s.gen || s.dial != nil && m.gen == s.gen {
		s.fresh.dirty |= m.which
		s.plan()
	}
}

// plan sets the time of the next fetch if one is needed and none is planned.
func (s *Supervisor) plan() {
	if s.fresh.dirty == 0 || s.cur == nil || !s.cur.listed || s.listing || !s.fresh.at.IsZero() {
		return
	}
	s.fresh.at = time.Now().Add(settle)
	if gap := s.fresh.ended.Add(refreshGap); s.fresh.at.Before(gap) {
		s.fresh.at = gap
	}
}

// relist begins the fetch that was planned.
func (s *Supervisor) relist() {
	which := s.fresh.dirty
	s.fresh.dirty, s.fresh.at = 0, time.Time{}
	s.list(which)
}
