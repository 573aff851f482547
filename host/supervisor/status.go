package supervisor

import (
	"sync/atomic"
	"time"

	"github.com/hermes-host/hermes-host/breaker"
	"github.com/hermes-host/hermes-host/host/session"
)

// A view is the state as Run published it last. It never changes.
type view struct {
	state     State
	since     time.Time
	reason    string
	live      *live
	gen       uint64
	failed    int // attempts in a row
	left      int // attempts
	next      time.Time
	parked    park
	failure   *session.End
	failureAt time.Time
	fault     fault
	trouble   Trouble
	downSince time.Time
	changed   chan struct{} // closed when another view has taken its place
}

// look makes a view of the present state.
func (s *Supervisor) look() *view {
	return &view{
		state: s.state, since: s.since, reason: s.reason, live: s.cur, gen: s.gen,
		failed: s.pace.failed, left: s.pace.left(), next: s.nextAt, parked: s.parked,
		failure: s.failure, failureAt: s.failureAt,
		fault: s.fault, trouble: s.troubles.now, downSince: s.downSince, changed: make(chan struct{}),
	}
}

// publish shows the present state to everybody, and wakes those who wait for
// a change.
func (s *Supervisor) publish() {
	old := s.view.Swap(s.look())
	close(old.changed)
}

// lastError returns the latest failure, nil if there was none.
func (v *view) lastError() error {
	if v.failure == nil {
		return nil
	}
	return v.failure
}

// retryIn returns the time to the next attempt, 0 if it is under way or none
// is planned.
func (v *view) retryIn() time.Duration {
	if v.next.IsZero() {
		return 0
	}
	return max(0, time.Until(v.next))
}

type counters struct {
	total, failed, pending, replayed, starts atomic.Int64
}

// Status is a server at one moment, for people and their displays.
type Status struct {
	Name   string
	State  State
	Since  time.Time // of a parked server: since it parked first after it was ready last
	Reason string    // of the state; never empty
	// Changed is when the state changed last. That of a parked server changes
	// with each attempt to revive it.
	Changed time.Time

	Generation  uint64    // of the latest session or attempt
	Starts      int64     // sessions that came up so far
	Failed      int       // attempts in a row
	Left        int       // attempts before it parks
	NextAttempt time.Time // zero: none is planned
	Parked      ParkKind  // what a parked server waits for
	// NeedsAuthorization is true while calls are refused, or the server is
	// parked, for want of an authorization.
	NeedsAuthorization bool

	// Trouble is what is wrong with the live session, if something is.
	Trouble Trouble

	LastError   string // of the latest failed attempt, call or check, or lost session; empty if none
	LastErrorAt time.Time

	Breaker breaker.Snapshot
	Session *session.Info // of the live session; nil if there is none

	Calls    int64 // answered or not
	Failures int64 // calls that got no answer, for other reasons than their caller's
	Replayed int64
	InFlight int64 // calls now, waiting ones included
}

// Status returns the present status.
func (s *Supervisor) Status() Status {
	v := s.view.Load()
	st := Status{
		Name: s.cfg.Name, State: v.state, Since: v.since, Reason: v.reason, Changed: v.since,
		Trouble: v.trouble, Generation: v.gen, Starts: s.calls.starts.Load(), Failed: v.failed, Left: v.left, NextAttempt: v.next,
		LastErrorAt: v.failureAt, Breaker: s.breaker.Snapshot(),
		Calls: s.calls.total.Load(), Failures: s.calls.failed.Load(), Replayed: s.calls.replayed.Load(),
		InFlight: s.calls.pending.Load(),
	}
	if v.state == Parked {
		st.Parked, st.Since = v.parked.kind, v.downSince
	}
	st.NeedsAuthorization = st.Parked == Unauthorized
	if v.failure != nil {
		st.LastError = v.failure.Message
	}
	if v.fault.at.After(v.failureAt) {
		st.LastError, st.LastErrorAt = v.fault.text, v.fault.at
	}
	if v.live != nil {
		info := v.live.info
		st.Session = &info
		st.NeedsAuthorization = v.live.noAuth.Load()
	}
	return st
}
