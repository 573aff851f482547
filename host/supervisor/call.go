package supervisor

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/hermes-host/hermes-host/breaker"
	"github.com/hermes-host/hermes-host/host/session"
)

// CallOptions say how a request is to be treated. The zero value is right for
// most.
type CallOptions struct {
	// Idempotent allows the request to be sent once more when its answer was
	// lost. Without it, it is sent again only if it cannot have been acted on.
	Idempotent bool
	Timeout    time.Duration // the host's limit, per sending; 0: Timeouts.Call
	// Excused, if not nil, is asked when the limit is reached. True means that
	// it is not the server that is waited for (a person has been asked
	// something), and gives the request as much time again.
	Excused func() bool

	_ struct{}
}

// Call sends a request over the live session and returns the answer, which may
// be a JSON-RPC error. If there is no session it causes a reconnect where that
// helps and waits for one, up to Timeouts.CallWait. When the session ends under
// the call and the rules allow it, the request is sent once more on the next.
//
// The error is the cause of ctx if that ended first, or one of
// [*ReconnectingError], [*OpenError], [*OutcomeUnknownError], [*TimeoutError],
// [*AuthNeededError], [*UnavailableError] and [*RefusedError].
func (s *Supervisor) Call(ctx context.Context, req session.Request, opt CallOptions) (session.Reply, error) {
	s.calls.total.Add(1)
	s.calls.pending.Add(1)
	defer s.calls.pending.Add(-1)
	if opt.Timeout <= 0 {
		opt.Timeout = s.cfg.Timeouts.Call
	}
	reply, end, used, err := s.send(ctx, req, opt, nil)
	if err != nil && used != nil && end.again(opt.Idempotent) {
		// Wait for another session, or for a check that clears this one.
		past := &usage{used, used.checks.Load()}
		s.mail.post(suspect{used.gen})
		if _, miss := s.await(ctx, s.deadline(), past, 0); miss == nil {
			s.calls.replayed.Add(1)
			r, last, at, again := s.send(ctx, req, opt, past)
			var open *OpenError
			gaveUp := ctx.Err() != nil && errors.Is(again, context.Cause(ctx))
			unsent := again != nil && !gaveUp && (at == nil || last.unsent())
			if !unsent || end.unsent() && !errors.As(again, &open) { // else the first error is the truth of both
				reply, err = r, again
			}
		}
	}
	if err != nil && ctx.Err() == nil {
		s.calls.failed.Add(1)
	}
	return reply, err
}

// Await waits for a session that is being made, up to Timeouts.CallWait, for
// callers whose request depends on what the server is. Its errors are Call's.
// It returns nil at once if there is a session, or if none is being made: then
// Call knows what to do.
func (s *Supervisor) Await(ctx context.Context) error {
	if st := s.view.Load().state; st != Connecting && st != Reconnecting {
		return nil
	}
	_, err := s.await(ctx, s.deadline(), nil, 0)
	return err
}

// A usage is a session that failed a call, and what was known of it then.
type usage struct {
	live   *live
	checks int64
}

// usable returns the live session unless it is known to be dead, or is the one
// in past and nobody has found it healthy since.
func (v *view) usable(past *usage) *live {
	l := v.live
	if l == nil || l.dead() || past != nil && l == past.live && l.checks.Load() == past.checks {
		return nil
	}
	return l
}

// send passes the breaker, finds a session and sends the request once. The
// session is nil if it came to none.
func (s *Supervisor) send(ctx context.Context, req session.Request, opt CallOptions, past *usage) (session.Reply, ending, *live, error) {
	var deadline time.Time // for all waiting; set when it begins
	for {
		v := s.view.Load()
		if err := s.refusal(v); err != nil {
			return session.Reply{}, local, nil, err
		}
		l := v.usable(past)
		if l != nil {
			if end := l.pulse.mute.Load(); end != nil {
				return session.Reply{}, local, nil, s.muted(end)
			}
			if held := l.pulse.held.Load(); held != nil { // for one check at most
				select {
				case <-*held:
					continue
				case <-l.ctx.Done():
					continue
				case <-ctx.Done():
					return session.Reply{}, local, nil, context.Cause(ctx)
				}
			}
		}
		ticket, err := s.breaker.Allow()
		if err != nil {
			return session.Reply{}, local, nil, s.open(v, err)
		}
		if l != nil {
			if end := s.enter(l); end != nil {
				ticket.Settle(breaker.Neutral)
				return session.Reply{}, local, nil, s.muted(end)
			}
			reply, end, err := s.exchange(ctx, l, ticket, req, opt)
			return reply, end, l, err
		}
		var asked uint64
		if ticket.Probe() && v.state == Parked {
			asked = v.parked.number
			s.mail.post(demand{asked})
		}
		if deadline.IsZero() {
			deadline = s.deadline()
		}
		if _, err = s.await(ctx, deadline, past, asked); err == nil {
			// The session's start has reset the breaker: ask it again.
			ticket.Settle(breaker.Neutral)
			continue
		}
		if ticket.Probe() && ctx.Err() == nil {
			ticket.Settle(breaker.Failure)
		}
		ticket.Settle(breaker.Neutral)
		return session.Reply{}, local, nil, err
	}
}

func (s *Supervisor) deadline() time.Time { return time.Now().Add(s.cfg.Timeouts.CallWait) }

// await waits for a usable session. It ends early when none can come: the
// server is parked, and not in the park that the caller has asked to end.
func (s *Supervisor) await(ctx context.Context, deadline time.Time, past *usage, asked uint64) (*live, error) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		v := s.view.Load()
		if l := v.usable(past); l != nil {
			return l, nil
		}
		if err := s.refusal(v); err != nil {
			return nil, err
		}
		if v.state == Parked && v.parked.number != asked {
			return nil, s.reconnecting(v)
		}
		select {
		case <-v.changed:
		case <-timer.C:
			return nil, s.reconnecting(s.view.Load())
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// enter counts a call among those in flight. A mute session takes none, since
// its last one has to come to an end: then enter returns why it is mute.
func (s *Supervisor) enter(l *live) *session.End {
	l.pending.Add(1)
	end := l.pulse.mute.Load()
	if end != nil {
		s.leave(l)
	}
	return end
}

// leave ends what enter began.
func (s *Supervisor) leave(l *live) {
	if l.pending.Add(-1) == 0 && l.pulse.mute.Load() != nil {
		s.mail.post(drained{l.gen})
	}
}

// exchange sends a request over a session that the call has entered, and settles
// the ticket.
func (s *Supervisor) exchange(ctx context.Context, l *live, ticket breaker.Ticket, req session.Request, opt CallOptions) (session.Reply, ending, error) {
	defer ticket.Settle(breaker.Neutral) // should the session panic
	defer s.leave(l)
	sent := l.pulse.now()
	call, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })()
	var limit *time.Timer
	limit = time.AfterFunc(math.MaxInt64, func() {
		if opt.Excused != nil && opt.Excused() {
			limit.Reset(opt.Timeout)
			return
		}
		cancel(errCallTimeout)
	})
	limit.Reset(opt.Timeout)
	defer limit.Stop()

	reply, err := l.sess.Call(call, req)
	silent := l.pulse.silentSince(sent)
	end := classify(ctx, call, l, err)
	if end == timedOut {
		err = &TimeoutError{s.cfg.Name, req.Method, opt.Timeout}
	}
	ticket.Settle(rulings[end].outcome)
	switch end {
	case answered:
		l.pulse.beat()
		l.proven.Store(true)
		l.noAuth.Store(false)
		if l.troubled.Load() {
			s.mail.post(well{l.gen})
		}
		return reply, end, nil
	case cancelled:
		s.doubt(l, silent)
	case noAuth:
		l.pulse.beat()
		l.noAuth.Store(true)
		s.failing(l, Refused, err)
	case local:
		f, _ := errors.AsType[*session.Failure](err)
		if f.Undelivered { // nobody but the caller has to do with it
			break
		}
		l.pulse.beat()
		kind := NoTrouble
		if f.Reason == session.Invalid {
			kind = Garbled
		}
		s.failing(l, kind, err)
	case timedOut, failUnsent, failSent:
		if end == timedOut {
			s.doubt(l, silent)
		}
		s.failing(l, NoTrouble, err)
		l.struck.Store(&err)
		if f, ok := errors.AsType[*session.Failure](err); ok && f.Reason != session.HTTPStatus {
			s.mail.post(suspect{l.gen})
		}
	}
	return session.Reply{}, end, s.explain(ctx, end, l, req, opt, err)
}

// doubt tells of a call that was given up on a session which has been silent
// since. If a check is due, calls wait for it from now on: a client calls again
// right away.
func (s *Supervisor) doubt(l *live, since time.Duration) {
	if l.pulse.now() >= since+s.cfg.Timeouts.Health {
		l.pulse.hold()
	}
	s.mail.post(gaveUp{l.gen, since})
}

// failing has a failure noted for people.
func (s *Supervisor) failing(l *live, kind TroubleKind, err error) {
	s.mail.post(failing{l.gen, kind, fault{err.Error(), time.Now()}})
}

// explain makes the caller's error of a request that got no answer.
func (s *Supervisor) explain(ctx context.Context, end ending, l *live, req session.Request, opt CallOptions, err error) error {
	if end == lostSent && l.ctx.Err() != nil {
		if _, ok := errors.AsType[*session.Failure](err); !ok {
			err = context.Cause(l.ctx)
		}
	}
	switch end {
	case cancelled:
		return context.Cause(ctx)
	case timedOut:
		return err
	case noAuth:
		return &AuthNeededError{s.cfg.Name, err}
	case local:
		f, _ := errors.AsType[*session.Failure](err)
		return &RefusedError{s.cfg.Name, req.Method, f}
	case lostUnsent, failUnsent:
		v := s.view.Load()
		return &ReconnectingError{s.cfg.Name, v.shown(), v.retryIn(), err}
	}
	return &OutcomeUnknownError{s.cfg.Name, req.Method, opt.Idempotent, err}
}

// shown returns the state for an error's text: a server that looks ready but
// has no session is about to reconnect.
func (v *view) shown() State {
	if v.state == Ready {
		return Reconnecting
	}
	return v.state
}

func (s *Supervisor) reconnecting(v *view) error {
	return &ReconnectingError{s.cfg.Name, v.shown(), v.retryIn(), v.lastError()}
}

// refusal returns the error of a server that no call can bring back, nil if it
// is another.
func (s *Supervisor) refusal(v *view) error {
	switch {
	case v.state == Parked && v.parked.kind == Unauthorized:
		return &AuthNeededError{s.cfg.Name, v.lastError()}
	case v.state == Stopped, v.state == Disabled, v.state == Parked && v.parked.kind.person():
		return &UnavailableError{s.cfg.Name, v.state, v.parked.kind, v.reason}
	}
	return nil
}

// muted makes the caller's error of a session that does not answer.
func (s *Supervisor) muted(end *session.End) error {
	return &OpenError{Server: s.cfg.Name, Cause: end}
}

// open makes the caller's error of a breaker's refusal. A parked server may be
// tried before the cooldown is over.
func (s *Supervisor) open(v *view, err error) error {
	o := &OpenError{Server: s.cfg.Name, Cause: v.lastError()}
	if v.live != nil {
		if err := v.live.struck.Load(); err != nil {
			o.Cause = *err
		}
	}
	if b, ok := errors.AsType[*breaker.OpenError](err); ok {
		o.RetryIn = b.RetryAfter
	}
	if next := v.retryIn(); v.state == Parked && next > 0 {
		o.RetryIn = min(o.RetryIn, next)
	}
	return o
}
