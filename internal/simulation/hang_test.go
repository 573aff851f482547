package simulation

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

// hang has the session of a server that is well hang for good: it answers
// nothing any more, and nobody hears of its end. Its callers have less patience
// than the host, and call again as soon as they have given up or are refused, so
// that a call is in flight nearly all the time. All must be answered in time.
func (h *history) hang() {
	h.after(0)
	live, ok := h.server().sup.Session().(*sess)
	if !ok {
		return // check says so
	}
	patience := []time.Duration{
		200 * time.Millisecond, time.Second, 3 * time.Second, checking - 1, checking, checking + 1, 10 * time.Second, callLimit - 1,
	}[h.rng.IntN(8)]
	callers := []int{1, 2, 4}[h.rng.IntN(3)]
	// Silence, a check, and if there are others, too, the calls that they have
	// by then, and another check.
	within := max(patience, checking) + checking + slack
	if callers > 1 {
		within += patience
	}
	h.step("session %d hangs; %d callers, who give up after %s, must be answered within %s", live.n, callers, patience, within)
	live.hangs.Store(true)
	start := time.Now()
	var all sync.WaitGroup
	for n := range callers {
		apart := time.Duration(n) * patience / time.Duration(callers)
		all.Go(func() {
			<-time.After(apart)
			for {
				err := h.ask(h.server(), patience)
				switch {
				case err == nil:
					return
				case time.Since(start) > within:
					h.fault("a server that hung is not back after %s: %v", time.Since(start), err)
					return
				case !errors.Is(err, errGaveUp):
					<-time.After(500 * time.Millisecond)
				}
			}
		})
	}
	all.Wait()
	h.after(time.Second) // for the lists
	if st := h.server().sup.Status(); st.State != supervisor.Ready || h.server().sup.Session() == session.Session(live) {
		h.fault("%s (%s) although calls are answered", st.State, st.Reason)
	}
	h.check()
}

// silence is how a call ends whose session was given up since its server did not
// say anything.
const silence = "no sign of life: context deadline exceeded"

// ended holds the end of a call to the rule that silence is no reason to end
// one.
func (s *sess) ended(ctx context.Context) {
	if end, ok := context.Cause(ctx).(*session.End); ok && end.Message == silence {
		s.w.h.fault("a call in flight on session %d was ended because its server was busy", s.n)
	}
}

// hung waits for as long as a request can on a session that hangs.
func (s *sess) hung(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.done:
		return session.Failuref(false, "the session has ended")
	}
}
