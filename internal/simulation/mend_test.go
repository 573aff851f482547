package simulation

import (
	"errors"
	"fmt"
	"time"

	"github.com/hermes-host/hermes-host/host/supervisor"
)

// The bounds of recovery, in simulated time from the moment in which the
// world, and what hung in it, is well again.
const (
	// byItself is the longest wait of the revive timer.
	byItself = revival + slack
	// withCalls is a cooldown, which the longest back-off equals. A call comes
	// each second.
	withCalls = cooldown + slack
	// leftover is how long what has begun before, and goes on hanging, can keep
	// the server from that: an attempt to connect, its lists, a check, the end
	// of its session.
	leftover = connect + listing + checking + closing
	// slack is for calls that come once a second, gates and lingering.
	slack = 5 * time.Second
	// fresh is how long a list that changed may be shown as it was: the
	// longest wait between two fetches and the gap between them.
	fresh = backOff + 2*time.Second
)

// mend makes the world well and demands that the server be ready in time, and
// stay so, with the newest lists and closed breaker.
func (h *history) mend(calls, thaw bool) {
	h.after(0)
	within, how, hung := byItself, "by itself", "at once"
	if calls {
		within, how = withCalls, "with calls"
	}
	if !thaw {
		within, hung = within+leftover, "when it must"
	}
	h.step("the server is well, what hangs goes on %s; it must be ready %s within %s", hung, how, within)
	h.world.mend(thaw)
	start := time.Now()
	for {
		h.after(0)
		s := h.server()
		st := s.sup.Status()
		if st.State == supervisor.Parked && person(st) { // perhaps by what had begun before
			if st.Parked == supervisor.Unauthorized {
				s.sup.Authorized()
			} else {
				s.sup.Reconnect("a person who has mended it")
			}
			h.after(0)
		}
		passed := time.Since(start)
		if passed >= within || !calls && st.State == supervisor.Ready && (thaw || passed > leftover) {
			break
		}
		if calls {
			h.place(fmt.Sprintf("mend.%d", passed/time.Second), supervisor.CallOptions{}, time.Hour)
		}
		h.after(time.Second)
	}
	h.check()
	if st := h.server().sup.Status(); st.State != supervisor.Ready {
		h.fault("%s after %s (%s)", st.State, within, st.Reason)
		return
	}
	h.answers(calls, thaw)
	h.step("lists have the time to be fetched")
	h.after(fresh)
	h.check()
	h.checkFresh()
	if h.rng.IntN(4) == 0 {
		h.hang()
	}
}

// answers demands that calls be answered. If none was made so far, the breaker
// may still be open, or a call from before may hang as the probe.
func (h *history) answers(called, thaw bool) {
	var within time.Duration
	if !called {
		within = cooldown
		if !thaw {
			within += callLimit
		}
	}
	for start := time.Now(); ; h.after(time.Second) {
		err := h.ask(h.server(), time.Hour)
		var open *supervisor.OpenError
		switch {
		case err == nil:
			return
		case errors.As(err, &open) && time.Since(start) <= within:
			continue
		}
		h.fault("a call to a server that is well fails after %s: %v", time.Since(start), err)
		return
	}
}
