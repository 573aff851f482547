package e2e

import (
	"testing"
	"time"
)

// What a circuit breaker must never do is to keep a server down. These tests
// follow it with real processes, over each transport.

// TestProbeReachesTheSession: after the cooldown the next call really probes
// the session that is there, and its success closes the breaker.
func TestProbeReachesTheSession(t *testing.T) {
	t.Parallel()
	over(t, numbers{cooldown: "1500ms"}, func(t *testing.T, w *world) {
		w.open()
		before := w.server.callCount()
		refused := w.want("breaker open", "read", "within the cooldown")
		if refused.Sent || refused.RetryAfter <= 0 {
			t.Errorf("the refusal says %+v", refused)
		}
		if got := w.server.callCount(); got != before {
			t.Fatalf("%d calls reached the server within the cooldown", got-before)
		}
		w.pass(refused.RetryAfter)
		w.want("", "read", "after the cooldown")
		if got := w.server.callCount(); got != before+1 {
			t.Errorf("%d calls reached the server, want the probe", got-before)
		}
		// Closed means that all pass, at once, and that it takes three to open it.
		for _, o := range w.calls(5, "read") {
			if !o.ok {
				t.Errorf("after the probe's success: %s", o.text)
			}
		}
		w.server.set(silent)
		for _, o := range w.calls(2, "write") {
			if o.Reason != "timeout" {
				t.Errorf("after the probe's success: %s", o.text)
			}
		}
		w.server.set(well)
		w.want("", "read", "after two failures")
	})
}

// TestFailedProbeReArms: a probe that fails begins another cooldown instead of
// letting everything through, and of many callers one is the probe.
func TestFailedProbeReArms(t *testing.T) {
	t.Parallel()
	over(t, numbers{cooldown: "1500ms"}, func(t *testing.T, w *world) {
		w.open()
		w.server.set(silent)
		before := w.server.callCount()
		w.pass(w.want("breaker open", "write", "within the cooldown").RetryAfter)
		reasons := map[string]int{}
		for _, o := range w.calls(6, "write") {
			reasons[o.Reason]++
		}
		if reasons["timeout"] != 1 || reasons["breaker open"] != 5 {
			t.Errorf("six callers after the cooldown heard %v, want one timeout and five refusals", reasons)
		}
		if got := w.server.callCount(); got != before+1 {
			t.Errorf("%d calls reached the server, want the probe", got-before)
		}
		w.server.set(well)
		refused := w.want("breaker open", "read", "after the failed probe")
		if refused.RetryAfter < time.Second {
			t.Errorf("%v left of the cooldown, want nearly all", refused.RetryAfter)
		}
		w.pass(refused.RetryAfter)
		w.want("", "read", "after the second cooldown")
		w.want("", "read", "after the second probe")
	})
}

// TestProbeWithoutSession: a half-open probe that finds no live session
// requests a reconnect and returns a clean "reconnecting" error; the dead
// transport is not touched. The failure re-arms the cooldown.
func TestProbeWithoutSession(t *testing.T) {
	t.Parallel()
	over(t, numbers{cooldown: "1500ms"}, func(t *testing.T, w *world) {
		w.open()
		w.server.set(down)
		from := w.mark()
		w.server.kill()
		w.awaitState(from, "target", "parked")
		begun, calls, _ := w.server.counts()
		w.pass(w.want("breaker open", "write", "right after the park").RetryAfter)

		probe := w.want("reconnecting", "write", "after the cooldown")
		if probe.Sent || probe.Server != "target" || probe.text == "" {
			t.Errorf("the probe heard %+v", probe)
		}
		begunAfter, callsAfter, _ := w.server.counts()
		if begunAfter == begun {
			t.Error("the probe has not caused an attempt to reconnect")
		}
		if callsAfter != calls {
			t.Errorf("%d calls were written to a dead transport", callsAfter-calls)
		}
		again := w.want("breaker open", "write", "after the failed probe")
		if again.RetryAfter < time.Second {
			t.Errorf("%v left of the cooldown, want nearly all", again.RetryAfter)
		}
		if got, _, _ := w.server.counts(); got != begunAfter {
			t.Errorf("a refused call caused %d attempts", got-begunAfter)
		}

		// The next probe finds the server back: its caller notices only the time.
		w.server.set(well)
		w.pass(again.RetryAfter)
		w.want("", "write", "after the second cooldown")
		if got := w.server.callCount(); got != calls+1 {
			t.Errorf("%d calls reached the server, want 1", got-calls)
		}
	})
}

// TestProbeWhileReconnecting: where the attempt that a probe causes hangs, the
// probe hears so after the time that calls wait, no call is written anywhere,
// and those that come next are refused for another cooldown.
func TestProbeWhileReconnecting(t *testing.T) {
	t.Parallel()
	over(t, numbers{cooldown: "1500ms"}, func(t *testing.T, w *world) {
		w.server.set(down)
		from := w.mark()
		w.server.kill()
		w.awaitState(from, "target", "parked")
		_, calls, _ := w.server.counts()
		w.server.set(hanging)
		w.pass(w.want("breaker open", "write", "right after the park").RetryAfter)
		start := time.Now()
		w.want("reconnecting", "write", "after the cooldown")
		if took := time.Since(start); took > 4*time.Second {
			t.Errorf("the probe waited %v, want call_wait's 2s", took)
		}
		if again := w.want("breaker open", "write", "after the failed probe"); again.RetryAfter < time.Second/2 {
			t.Errorf("%v left of the cooldown, want nearly all", again.RetryAfter)
		}
		if got := w.server.callCount(); got != calls {
			t.Errorf("%d calls were written to a server without a session", got-calls)
		}
	})
}

// TestStraightThroughOnceBack: once the transport is back the next call goes
// straight through, whatever is left of the cooldown.
func TestStraightThroughOnceBack(t *testing.T) {
	t.Parallel()
	over(t, numbers{cooldown: "1h", revive: "1s"}, func(t *testing.T, w *world) {
		w.open()
		w.want("breaker open", "read", "within the cooldown")
		w.server.set(down)
		from := w.mark()
		w.server.kill()
		from = w.awaitState(from, "target", "parked")
		w.server.set(well)
		w.awaitState(from, "target", "ready")
		w.want("", "read", "once the server is back")
		for _, o := range w.calls(3, "write") {
			if !o.ok {
				t.Errorf("once the server is back: %s", o.text)
			}
		}
	})
}
