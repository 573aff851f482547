package supervisor

import (
	"context"
	"errors"
	"time"

	"github.com/hermes-host/hermes-host/breaker"
	"github.com/hermes-host/hermes-host/host/session"
)

// An ending is what became of a request that was handed to a session.
type ending int

const (
	answered   ending = iota // a result, an isError result, any JSON-RPC error
	cancelled                // the caller gave up, or its own deadline passed
	timedOut                 // the host's limit passed
	lostUnsent               // the session ended, and the server cannot have acted on it
	lostSent                 // the session ended, and it may have
	failUnsent               // no answer, the session goes on, the server cannot have acted on it
	failSent                 // no answer, the session goes on, it may have
	noAuth                   // 401 or 403
	local                    // this message alone: too large, or no JSON-RPC
)

// A ruling is what follows from an ending.
type ruling struct {
	outcome breaker.Outcome
	replay  replay
}

// replay says when a request may be sent again.
type replay int

const (
	never replay = iota
	always
	ifIdempotent
)

// rulings is the whole policy. The end of a session says nothing to the
// breaker: it has a recovery of its own, and the failures of the calls it took
// along would keep those that come next from waiting for the new session.
var rulings = [...]ruling{
	answered:   {breaker.Success, never},
	cancelled:  {breaker.Neutral, never},
	timedOut:   {breaker.Failure, never},
	lostUnsent: {breaker.Neutral, always},
	lostSent:   {breaker.Neutral, ifIdempotent},
	failUnsent: {breaker.Failure, always},
	failSent:   {breaker.Failure, ifIdempotent},
	noAuth:     {breaker.Neutral, never},
	local:      {breaker.Neutral, never},
}

// again reports whether the request may be sent once more.
func (e ending) again(idempotent bool) bool {
	r := rulings[e].replay
	return r == always || r == ifIdempotent && idempotent
}

// unsent reports whether the server cannot have acted on the request, although
// it was handed to a session.
func (e ending) unsent() bool { return e == lostUnsent || e == failUnsent }

// linger is how long a failed call waits for the end of its session, which
// often follows on its heels: a server's death is reported to its calls first.
const linger = 50 * time.Millisecond

// errCallTimeout is the cause of a call's context when the host's own limit
// has passed.
var errCallTimeout = errors.New("the host's limit for calls has passed")

// classify says what became of a request. caller is the context of whoever
// called, call the one that the session was given.
func classify(caller, call context.Context, l *live, err error) ending {
	if err == nil {
		return answered
	}
	if caller.Err() != nil {
		return cancelled
	}
	f, ok := errors.AsType[*session.Failure](err)
	switch {
	case ok && f.Reason == session.NeedsAuth:
		return noAuth
	case ok && (f.Reason == session.Oversize || f.Reason == session.Invalid):
		return local
	case !ok && context.Cause(call) == errCallTimeout:
		return timedOut
	}
	unsent := ok && f.Undelivered
	over := l.dead()
	if !over && (!ok || f.Reason == session.Connection || f.Reason == session.SessionLost) {
		select {
		case <-l.sess.Done():
			over = true
		case <-l.ctx.Done():
			over = true
		case <-caller.Done():
		case <-time.After(linger):
		}
	}
	switch {
	case over && unsent:
		return lostUnsent
	case over:
		return lostSent
	case unsent:
		return failUnsent
	}
	return failSent
}
