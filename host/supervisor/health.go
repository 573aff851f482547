package supervisor

import (
	"context"
	"errors"
	"time"

	"github.com/hermes-host/hermes-host/host/session"
)

// health is the checking of one session.
type health struct {
	at      time.Time // the next keep-alive check; zero: none
	running bool
	began   time.Duration // the check under way, on the clock of the session's pulse
	suspect bool          // it was asked for
	doubt   doubt
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
	s.health.began = l.pulse.now()
	s.work(func() message {
		ctx, cancel := context.WithTimeout(l.ctx, s.cfg.Timeouts.Health)
		defer cancel()
		err := l.sess.Healthy(ctx)
		if err == nil || refuses(err) != nil {
			l.pulse.beat()
		}
		return checked{l, err}
	})
}

func lifeless(err error) *session.End {
	return &session.End{Class: session.Gone, Message: "no sign of life: " + err.Error(), Retryable: true}
}

// refuses returns the failure of a request that the server has refused for want
// of an authorization, which shows that it is there; nil if it is another error.
func refuses(err error) *session.Failure {
	if f, ok := errors.AsType[*session.Failure](err); ok && f.Reason == session.NeedsAuth {
		return f
	}
	return nil
}

// apply keeps a session that lives and replaces one that does not.
func (m checked) apply(s *Supervisor) {
	l := m.live
	if l != s.cur {
		return
	}
	defer l.pulse.release()
	asked, d := s.health.suspect, &s.health.doubt
	s.health.running, s.health.suspect, d.due = false, false, time.Time{}
	refused := refuses(m.err)
	switch {
	case l.dead(): // ended says so
		return
	case m.err == nil || refused != nil:
		l.checks.Add(1)
		s.unmute()
		if refused != nil {
			l.noAuth.Store(true)
			s.inTrouble(Refused, refused.Message, time.Now())
		} else {
			s.well()
		}
		s.publish() // calls wait for the verdict
	case asked && (l.pending.Load() == 0 || !errors.Is(m.err, context.DeadlineExceeded)):
		s.drop(lifeless(m.err))
	case asked && !d.open:
		*d = doubt{open: true, since: s.health.began}
		s.silent(l, lifeless(m.err))
	case asked, d.open && l.pulse.now() >= d.since+s.cfg.Timeouts.Health:
		s.silent(l, lifeless(m.err))
	case l.pending.Load() == 0:
		s.drop(lifeless(m.err))
	case d.open:
		d.due = l.pulse.start.Add(d.since + s.cfg.Timeouts.Health)
	}
	if s.cur == l {
		s.health.rest(s.cfg.KeepAlive)
	}
}
