// Package breaker is a circuit breaker for calls to something that can be away
// for a while and come back.
//
//	         Threshold failures in a row, Trip
//	closed ────────────────────────────────────▶ open
//	  ▲                                          │  ▲
//	  │ success, Reset             Allow, once   │  │ failure, Trip
//	  │                      the cooldown is over ▼  │
//	  └──────────────────────────────────────── half-open
//
// It differs from most in four ways, each the answer to an outage:
//
//   - A caller is told that its call is the probe ([Ticket.Probe]), so that a
//     probe that finds nothing to call can cause a reconnect.
//   - There are three outcomes. A [Neutral] one says nothing about the other
//     side and gives the probe's slot back; a probe that is never settled
//     loses its slot after Config.Lease. No slot is lost for good.
//   - Tickets belong to an epoch, which ends with every change of state, Reset
//     and Trip. The outcome of a call from before a reconnect is not held
//     against the new connection, nor does it prove the new one healthy.
//   - Someone who knows better can Reset and Trip it.
//
// The package starts no goroutine and no timer: time matters only when
// somebody calls.
package breaker

import (
	"sync"
	"time"
)

// State is what a breaker does with calls.
type State int

const (
	Closed   State = iota // calls pass
	Open                  // calls are refused; once the cooldown is over the next one is the probe
	HalfOpen              // one call, the probe, is under way or may be made; others are refused
)

var stateNames = [...]string{"closed", "open", "half-open"}

// String returns the state in lower case words.
func (s State) String() string { return stateNames[s] }

// Outcome is what a call tells about the other side.
type Outcome int

const (
	Neutral Outcome = iota // nothing: the caller gave up, or nothing was sent
	Success                // it answers
	Failure                // it does not
)

var outcomeNames = [...]string{"neutral", "success", "failure"}

// String returns the outcome in lower case.
func (o Outcome) String() string { return outcomeNames[o] }

// Defaults of Config.
const (
	DefaultThreshold = 3
	DefaultCooldown  = 60 * time.Second
	DefaultLease     = 5 * time.Minute
)

// Config says how a breaker behaves. The zero value is a good one.
type Config struct {
	Threshold int           // failures in a row that open it; DefaultThreshold if 0
	Cooldown  time.Duration // how long it refuses calls before a probe; DefaultCooldown if 0
	// Lease is how long a probe may go unsettled before its slot is given to
	// the next caller; DefaultLease if 0. It should exceed the longest call.
	Lease time.Duration
	// OnChange, if not nil, hears every change of state, one at a time and in
	// order, from the goroutine of some caller and outside all locks: it may
	// use the breaker. A change can be reported after the method that made it
	// has returned, if another goroutine is reporting at that moment.
	OnChange func(from, to State)

	_ struct{}
}

// A Breaker is safe for concurrent use. [New] makes one.
type Breaker struct {
	cfg Config

	mu       sync.Mutex
	state    State
	epoch    uint64    // ends with every change of state, Reset and Trip
	failures int       // in a row
	until    time.Time // Open: the end of the cooldown
	probe    *grant    // HalfOpen: the probe under way; nil if the slot is free
	lease    time.Time // HalfOpen: when the probe under way loses its slot

	changes   []change // not yet reported
	reporting bool     // a goroutine is in report
}

type change struct{ from, to State }

// A grant is the right to make one call, valid in its epoch until settled.
type grant struct {
	b       *Breaker
	epoch   uint64
	probe   bool
	settled bool // under b.mu
}

// New returns a closed breaker.
func New(cfg Config) *Breaker {
	if cfg.Threshold <= 0 {
		cfg.Threshold = DefaultThreshold
	}
	if cfg.Cooldown <= 0 {
		cfg.Cooldown = DefaultCooldown
	}
	if cfg.Lease <= 0 {
		cfg.Lease = DefaultLease
	}
	return &Breaker{cfg: cfg}
}

// Allow asks for leave to make one call. The error is an [*OpenError]. A
// ticket must be settled whatever becomes of the call; since only the first
// Settle counts, a deferred Settle(Neutral) covers panics and early returns.
func (b *Breaker) Allow() (Ticket, error) {
	b.mu.Lock()
	defer b.unlock()
	now := time.Now()
	switch {
	case b.state == Closed:
		return Ticket{&grant{b: b, epoch: b.epoch}}, nil
	case b.state == Open && now.Before(b.until):
		return Ticket{}, &OpenError{RetryAfter: b.until.Sub(now)}
	case b.state == Open:
		b.become(HalfOpen)
	case b.probe != nil && now.Before(b.lease):
		return Ticket{}, &OpenError{Probing: true}
	}
	b.probe = &grant{b: b, epoch: b.epoch, probe: true}
	b.lease = now.Add(b.cfg.Lease)
	return Ticket{b.probe}, nil
}

// Reset closes the breaker, forgets all failures and voids all tickets. Call
// it when a new connection is up and in use.
func (b *Breaker) Reset() {
	b.mu.Lock()
	defer b.unlock()
	b.become(Closed)
}

// Trip opens the breaker for a full cooldown from now and voids all tickets.
// Call it when it is known that calls can't succeed.
func (b *Breaker) Trip() {
	b.mu.Lock()
	defer b.unlock()
	b.become(Open)
}

// become begins a new epoch in the given state. The caller holds b.mu.
func (b *Breaker) become(s State) {
	b.epoch++
	b.probe = nil
	switch s {
	case Closed:
		b.failures = 0
	case Open:
		b.until = time.Now().Add(b.cfg.Cooldown)
	}
	if s != b.state && b.cfg.OnChange != nil {
		b.changes = append(b.changes, change{b.state, s})
	}
	b.state = s
}

// settle counts the outcome of a call unless its grant is void.
func (b *Breaker) settle(g *grant, o Outcome) {
	b.mu.Lock()
	defer b.unlock()
	void := g.settled || g.epoch != b.epoch || g.probe && b.probe != g
	g.settled = true
	if void {
		return
	}
	if g.probe {
		b.probe = nil
	}
	switch o {
	case Success:
		b.failures = 0
		if g.probe {
			b.become(Closed)
		}
	case Failure:
		b.failures++
		if g.probe || b.failures >= b.cfg.Threshold {
			b.become(Open)
		}
	}
}

// unlock releases b.mu and reports what changed under it. Only one goroutine
// reports at a time, which keeps the order; it takes along what others add
// meanwhile.
func (b *Breaker) unlock() {
	if b.reporting {
		b.mu.Unlock()
		return
	}
	b.reporting = true
	for len(b.changes) > 0 {
		c := b.changes[0]
		b.changes = b.changes[1:]
		b.mu.Unlock()
		b.cfg.OnChange(c.from, c.to)
		b.mu.Lock()
	}
	b.changes, b.reporting = nil, false
	b.mu.Unlock()
}
