package e2e

import (
	"testing"
	"time"
)

// TestParkInsteadOfGivingUp: when the budget is spent the server is parked, not
// given up. Its tools are withdrawn, once, and an open client is told. A later
// call re-enters the transport, and the tools are back for that client.
func TestParkInsteadOfGivingUp(t *testing.T) {
	t.Parallel()
	over(t, numbers{cooldown: "1s", budget: 2}, func(t *testing.T, w *world) {
		if got := w.tools(); got != 3 {
			t.Fatalf("%d tools are listed, want 3", got)
		}
		w.server.set(down)
		from := w.mark()
		w.server.kill()
		from = w.awaitState(from, "target", "parked")
		w.awaitTools(0, "the server was parked")

		w.server.set(well)
		w.pass(w.want("breaker open", "read", "right after the park").RetryAfter)
		w.want("", "read", "after the cooldown") // the name is still known
		w.awaitState(from, "target", "ready")
		w.awaitTools(3, "the server is back")

		// Parked again, and then shut down: what is withdrawn is withdrawn once.
		w.server.set(down)
		w.server.kill()
		w.awaitState(from, "target", "parked")
		w.awaitTools(0, "the server was parked again")
		start := time.Now()
		if code := w.stop(); code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("the end took %v", took)
		}
		if n := len(w.changed); n > 1 { // the last notice may have come after the list
			t.Errorf("the client was told of %d more changes", n)
		}
	})
}

// TestOutagesDontAddUp: the budget and the back-off start anew with each
// successful reconnect, so outages that each cost an attempt never add up to a
// park.
func TestOutagesDontAddUp(t *testing.T) {
	t.Parallel()
	over(t, numbers{base: "1s", budget: 2}, func(t *testing.T, w *world) {
		start := w.mark()
		for range 3 {
			w.want("", "read", "before an outage")
			w.server.set(down)
			from := w.mark()
			w.server.kill()
			_, from = w.await(from, "an attempt to fail", func(l line) bool {
				return l.Server == "target" && l.Message == "attempt failed"
			})
			w.server.set(well)
			w.awaitState(from, "target", "ready")
		}
		for _, state := range w.states(start, "target") {
			if state == "parked" {
				t.Errorf("three outages of one failed attempt each, and a budget of two: %q", w.states(start, "target"))
				break
			}
		}
	})
}
