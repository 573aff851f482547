//go:build linux

package main

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// An outcome is what became of a call, as its caller sees it.
type outcome int

const (
	answered  outcome = iota // the tool's answer
	unsent                   // a clear error: the server did not get it
	unknown                  // a clear error: the server may have acted on it
	cancelled                // the caller itself gave up
	cut                      // the caller's own connection was cut
	wrong                    // anything else
	outcomes
)

func (o outcome) String() string {
	return [...]string{"answered", "error, not sent", "error, outcome unknown", "cancelled by the client", "client's connection cut", "wrong"}[o]
}

// A record is what the run has seen so far.
type record struct {
	start time.Time

	mu         sync.Mutex
	calls      [outcomes]int
	reasons    map[string]int  // of errors, as the host names them
	longest    time.Duration   // an answer or error took
	quiet      []time.Duration // calls of steady servers before the first fault
	stormy     []time.Duration // and among faults
	faults     map[string]int
	missed     map[string]int // faults whose target was not there
	reconnects int            // sessions that clients had to make anew
	violations []string
	more       int // violations beyond those kept
}

func newRecord() *record {
	return &record{start: time.Now(), reasons: map[string]int{}, faults: map[string]int{}, missed: map[string]int{}}
}

// since is the time of the run, for people.
func (r *record) since() string { return time.Since(r.start).Round(time.Millisecond).String() }

// kept is how many violations are reported one by one.
const kept = 40

// violation notes that a promise was broken.
func (r *record) violation(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.violations) >= kept {
		r.more++
		return
	}
	text := fmt.Sprintf("%8s  %s", r.since(), fmt.Sprintf(format, args...))
	r.violations = append(r.violations, text)
	fmt.Println("VIOLATION", text)
}

// call notes a call's outcome and duration. Reason is the host's word for an
// error.
func (r *record) call(o outcome, reason string, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[o]++
	if reason != "" {
		r.reasons[reason]++
	}
	if o != cancelled {
		r.longest = max(r.longest, took)
	}
}

// steady notes the time that a small call of a steady server took.
func (r *record) steady(took time.Duration, storm bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if storm {
		r.stormy = append(r.stormy, took)
	} else {
		r.quiet = append(r.quiet, took)
	}
}

// fault notes a fault and says so. Hit is whether its target was there.
func (r *record) fault(kind, target, detail string, hit bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if hit {
		r.faults[kind]++
	} else {
		r.missed[kind]++
		detail += " (nothing was there)"
	}
	fmt.Printf("%10s  %-20s %-12s %s\n", r.since(), kind, target, detail)
}

func (r *record) reconnect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reconnects++
}

// failed reports whether a promise was broken.
func (r *record) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.violations) > 0
}

// quantile returns a quantile of unsorted durations, 0 of none.
func quantile(of []time.Duration, q float64) time.Duration {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
