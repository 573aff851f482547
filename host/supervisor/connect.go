package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-host/hermes-host/host/session"
)

// A dial is one attempt, from its decision to its session or failure.
type dial struct {
	filter  *filter
	cancel  context.CancelFunc
	dropped bool // the server was parked meanwhile: whatever comes is closed
}

// connect begins an attempt. Nothing of an earlier one is left.
func (s *Supervisor) connect() {
	s.nextAt, s.again = time.Time{}, false
	s.gen = s.cfg.Generations.Add(1)
	gen := s.gen
	f := &filter{
		to: s.cfg.Handler, stale: func(l Lists) { s.mail.post(stale{gen, l}) },
		pulse: &pulse{start: time.Now(), wake: func() { s.mail.post(spoke{gen}) }},
	}
	ctx, cancel := context.WithCancel(s.ctx)
	s.dial = &dial{filter: f, cancel: cancel}
	s.publish()
	s.work(func() message {
		defer cancel()
		leave, err := s.cfg.Gate.enter(ctx)
		if err != nil {
			return connected{err: err}
		}
		defer leave()
		limit := s.cfg.Timeouts.Connect
		ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no session within %s (timeouts.connect); a program that has to be downloaded first may need longer", limit))
		defer cancel()
		sess, err := s.cfg.Transport.Connect(ctx, f)
		if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return connected{sess, err}
	})
}

// apply publishes a new session, resets the breaker, in this order, and has
// the lists fetched.
func (m connected) apply(s *Supervisor) {
	d := s.dial
	s.dial = nil
	if d.dropped {
		if d.filter.retire(); m.sess != nil {
			s.close(m.sess)
		}
		return
	}
	if m.err != nil {
		d.filter.retire()
		s.failed(endOf("connecting", m.err))
		return
	}
	l := &live{gen: s.gen, sess: m.sess, info: m.sess.Info(), filter: d.filter, pulse: d.filter.pulse, since: time.Now()}
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(s.ctx)) // retire ends it, at shutdown too
	s.cur = l
	s.starts(l)
	s.work(func() message {
		select {
		case <-l.sess.Done():
		case <-l.ctx.Done():
		}
		return ended{l}
	})
	s.list(AllLists)
}

// starts makes a session visible to calls. They wake up after the reset, so
// that none of them meets the old breaker.
func (s *Supervisor) starts(l *live) {
	s.calls.starts.Add(1)
	next := s.look()
	old := s.view.Swap(next)
	s.breaker.Reset()
	close(old.changed)
	if lost := l.filter.publish(); lost > 0 {
		s.log.Warn("events dropped: too many before the session was up", "generation", l.gen, "dropped", lost)
	}
}

// end returns why the session has ended; it has.
func (l *live) end() *session.End {
	if end := l.sess.End(); end != nil {
		return end
	}
	return &session.End{Class: session.Gone, Message: "the session ended without a reason", Retryable: true}
}

// apply is the one way down for sessions that end by themselves, whatever it
// was that died.
func (m ended) apply(s *Supervisor) {
	if m.live != s.cur {
		return
	}
	s.drop(m.live.end())
}

// drop takes the current session down for a reason that was not asked for and
// decides what follows.
func (s *Supervisor) drop(end *session.End) {
	l := s.cur
	s.retire(end)
	if !l.listed {
		s.failed(end)
		return
	}
	now := time.Now()
	proven := l.proven.Load() || now.Sub(l.since) >= s.cfg.CrashLoop.Proven
	s.fail(end)
	wait, ok := s.pace.died(proven, now)
	switch {
	case !end.Retryable:
		s.park(parkKind(end), end.Message, end)
	case !ok && s.pace.looping():
		s.park(Resting, fmt.Sprintf("%d sessions died young within %s; the last: %s",
			len(s.pace.deaths), s.cfg.CrashLoop.Window, end.Message), end)
	case !ok:
		s.park(Resting, end.Message, end)
	default:
		s.nextAt = now.Add(wait)
		s.fire(lost, end.Message, end)
	}
}

// failed accounts for an attempt that did not get as far as ready.
func (s *Supervisor) failed(end *session.End) {
	s.fail(end)
	wait, ok := s.pace.fail()
	switch {
	case s.again:
		s.pace.full()
		s.nextAt = time.Now()
		s.publish()
	case !end.Retryable:
		s.park(parkKind(end), end.Message, end)
	case !ok:
		s.park(Resting, end.Message, end)
	default:
		s.nextAt = time.Now().Add(wait)
		s.publish()
		t := s.transition(s.state, end.Message, end)
		t.Repeated = !s.log.news(end.Message)
		s.log.attempt(t)
		s.cfg.OnAttempt(t)
	}
}

// fail remembers the latest failure for status and errors.
func (s *Supervisor) fail(end *session.End) { s.failure, s.failureAt = end, time.Now() }

// retire takes the current session out of use: no call finds it, those in
// flight end with the cause, its late events go nowhere. Then it is closed.
func (s *Supervisor) retire(cause error) {
	if s.dial != nil {
		s.dial.dropped = true
		s.dial.filter.retire()
		s.dial.cancel()
	}
	s.fresh, s.health, s.troubles.now = refresh{}, health{}, Trouble{}
	l := s.cur
	if l == nil {
		return
	}
	s.cur = nil
	l.filter.retire()
	if l.pulse.mute.Load() != nil {
		s.breaker.Reset() // whoever calls now waits for the next session
	}
	s.publish()
	l.pulse.release()
	l.cancel(cause)
	s.close(l.sess)
}

// close ends a session in a worker, in its own time, also at shutdown.
func (s *Supervisor) close(sess session.Session) {
	s.closing++
	s.work(func() message {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), s.cfg.Timeouts.Close)
		defer cancel()
		sess.Close(ctx)
		return closed{}
	})
}

func (closed) apply(s *Supervisor) { s.closing-- }

// apply replaces the session, or wakes the server, with a full budget.
func (m reconnect) apply(s *Supervisor) {
	s.renew("reconnect requested by "+m.by, s.state == Ready)
}

// apply does the same where authorization is what the server lacks.
func (authorized) apply(s *Supervisor) {
	if s.parked.kind == ByOperator {
		return
	}
	s.renew("authorization completed", s.state == Ready && s.cur.noAuth.Load())
}

// renew gives the full budget and has an attempt made at once. One that is
// under way is not disturbed, but if it fails another follows, since it may
// have begun before whatever made the caller ask.
func (s *Supervisor) renew(reason string, replace bool) {
	switch {
	case s.state == Stopped || s.state == Disabled || s.state == Ready && !replace:
	case s.state == Ready:
		s.pace.full()
		s.retire(&session.End{Class: session.Closed, Message: reason, Retryable: true})
		s.nextAt = time.Now()
		s.fire(lost, reason, nil)
	case s.state == Parked:
		s.pace.full()
		// The park has opened the breaker. Whoever calls now knows that an
		// attempt is under way, and waits for it.
		s.breaker.Reset()
		s.rouse(reason)
	case s.dial != nil && !s.dial.dropped || s.cur != nil:
		s.pace.full()
		s.again = true
		s.publish()
	default:
		s.pace.full()
		s.nextAt = time.Now()
		s.publish()
	}
}
