package breaker

import (
	"fmt"
	"time"
)

// A Ticket is leave to make one call. The zero Ticket belongs to no breaker
// and does nothing.
type Ticket struct{ g *grant }

// Probe reports whether this is the one call that a half-open breaker lets
// through.
func (t Ticket) Probe() bool { return t.g != nil && t.g.probe }

// Settle reports the outcome of the call. Only the first Settle of a ticket
// counts, and none once its epoch or its lease is over.
func (t Ticket) Settle(o Outcome) {
	if t.g != nil {
		t.g.b.settle(t.g, o)
	}
}

// An OpenError says that a breaker refused a call.
type OpenError struct {
	RetryAfter time.Duration // what is left of the cooldown; 0 if Probing
	Probing    bool          // the cooldown is over and another call is finding out
}

// Error says what the breaker waits for.
func (e *OpenError) Error() string {
	if e.Probing {
		return "circuit open: another call is probing"
	}
	return fmt.Sprintf("circuit open: next attempt in %s", e.RetryAfter.Round(time.Millisecond))
}

// A Snapshot is a breaker at one moment, for status displays.
type Snapshot struct {
	State      State
	Failures   int           // in a row
	RetryAfter time.Duration // Open: until a probe may pass; 0 if one may
}

// Snapshot returns the present state. An open breaker stays Open after its
// cooldown until the next Allow.
func (b *Breaker) Snapshot() Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Snapshot{State: b.state, Failures: b.failures}
	if b.state == Open {
		s.RetryAfter = max(0, time.Until(b.until))
	}
	return s
}

// State returns the present state: see [Breaker.Snapshot].
func (b *Breaker) State() State {
	return b.Snapshot().State
}
