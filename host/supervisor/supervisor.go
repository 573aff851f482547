// Package supervisor keeps the session of one MCP server alive for as long as
// the host runs, and carries calls to it.
//
// One goroutine, [Supervisor.Run], owns all state of a server. Slow work
// (connecting, listing, checking, closing) happens in workers that it starts
// and waits for; they and everybody else send it messages, and everybody reads
// an immutable view of the state. The promise: a server that is not shut down
// can always come back.
//
//	             listed                    session ended
//	connecting ─────────▶ ready ◀──────────────────────▶ reconnecting
//	    │                   │           listed             │   ▲
//	    │ budget spent,     │ needs a person,              │   │ wake: timer, probe, operator,
//	    │ needs a person    ▼ crash loop                   │   │ completed authorization
//	    └───────────────▶ parked ◀─────────────────────────┘   │
//	                        └──────────────────────────────────┘
//
// The way of one connection: dial (through the [Gate]), publish the session
// and reset the breaker, fetch the lists, ready. Whatever ends it (the death of
// the plugin or of the server, a broken stream, a lost HTTP session, a failed
// check, an operator) goes one way down: unpublish, end its calls, close, and
// only then dial again, so that there is never more than one.
//
// Sessions are numbered in generations. Messages and events of an old
// generation change nothing.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hermes-host/hermes-host/breaker"
	"github.com/hermes-host/hermes-host/host/session"
)

// A Supervisor looks after one session of one server. [New] makes one. All
// methods but Run return at once or are bounded by their context, and may be
// called from any goroutine, before, during and after Run.
type Supervisor struct {
	cfg     Config
	log     logger
	breaker *breaker.Breaker
	view    atomic.Pointer[view]
	mail    mailbox
	calls   counters
	started atomic.Bool

	// All below is Run's.

	ctx     context.Context // Run's
	inbox   chan message    // from workers
	workers int             // running; each sends exactly one message
	state   State
	since   time.Time
	reason  string
	gen     uint64 // of the latest attempt

	dial    *dial // the attempt under way, until its session is there
	cur     *live // the session that is up, listed or not
	closing int   // sessions being closed
	listing bool  // a worker is in Lister.List

	pace      pace      // back-off, budget and crash loop
	nextAt    time.Time // the next attempt; zero: none is planned
	again     bool      // somebody asked for a reconnect while an attempt was under way
	parked    park
	fresh     refresh
	health    health
	withdraw  bool // to be withdrawn when the list worker has finished
	failure   *session.End
	failureAt time.Time
	fault     fault // of the latest call without an answer
	troubles  troubles
	downSince time.Time // when it parked first since it was ready; zero: it has not
}

// A live is an initialised session. Run makes and retires it; calls use it.
type live struct {
	gen     uint64
	sess    session.Session
	info    session.Info
	filter  *filter
	pulse   *pulse
	ctx     context.Context // ends with the session; its cause says why
	cancel  context.CancelCauseFunc
	since   time.Time
	listed  bool                  // Run's
	proven  atomic.Bool           // a call was answered
	checks  atomic.Int64          // passed health checks
	noAuth  atomic.Bool           // a call was refused for want of authorization
	pending atomic.Int64          // calls in flight
	struck  atomic.Pointer[error] // of the latest call that it failed

	troubled atomic.Bool // Run's: an answer is news
}

// dead reports whether the session is known to have ended, even if Run has not
// heard of it yet.
func (l *live) dead() bool {
	select {
	case <-l.sess.Done():
		return true
	case <-l.ctx.Done():
		return true
	default:
		return false
	}
}

// New returns a supervisor that does nothing until Run. Config.Name and
// Config.Transport are required.
func New(cfg Config) *Supervisor {
	cfg = cfg.withDefaults()
	s := &Supervisor{
		cfg:    cfg,
		log:    logger{Logger: cfg.Logger.With("server", cfg.Name)},
		inbox:  make(chan message),
		state:  Connecting,
		since:  time.Now(),
		reason: "not started yet",
		pace:   pace{cfg: cfg},
	}
	s.mail.init()
	if cfg.Disabled {
		s.state, s.reason = Disabled, "disabled in the configuration"
	}
	bc, report := cfg.Breaker, cfg.Breaker.OnChange
	bc.OnChange = func(from, to breaker.State) {
		if l := s.view.Load().live; to == breaker.Open && l != nil && l.pulse.mute.Load() == nil {
			s.mail.post(suspect{l.gen})
		}
		if report != nil {
			report(from, to)
		}
	}
	s.breaker = breaker.New(bc)
	s.view.Store(s.look())
	return s
}

// Run looks after the server until ctx ends; nothing else makes it return. If
// ctx has a cause of its own, that is the reason in status and log. By
// then the session is closed, its entries are withdrawn and all workers have
// finished, bounded by Timeouts.Close. It returns nil, or an error at once if
// it has been called before.
func (s *Supervisor) Run(ctx context.Context) error {
	if s.started.Swap(true) {
		return fmt.Errorf("server %q: its supervisor was started twice", s.cfg.Name)
	}
	s.ctx = ctx
	if s.state != Disabled {
		s.nextAt = time.Now()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if ctx.Err() != nil {
			s.shutdown()
			return nil
		}
		s.tick(time.Now())
		if at := earliest(s.nextDial(), s.fresh.at, s.health.at, s.health.doubt.due); at.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(at))
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		case m := <-s.inbox:
			s.workers--
			if ctx.Err() != nil { // shutdown wins; shutdown itself looks at what came
				s.leftover(m)
				break
			}
			m.apply(s)
		case <-s.mail.bell:
			for _, m := range s.mail.take() {
				if ctx.Err() == nil {
					m.apply(s)
				}
			}
		}
	}
}

// tick does what is due.
func (s *Supervisor) tick(now time.Time) {
	if at := s.nextDial(); !at.IsZero() && !now.Before(at) {
		if s.state == Parked {
			s.revive()
		}
		s.connect()
	}
	if at := s.fresh.at; !at.IsZero() && !now.Before(at) {
		s.relist()
	}
	if at := s.health.at; !at.IsZero() && !now.Before(at) {
		s.keepAlive()
	}
	if at := s.health.doubt.due; !at.IsZero() && !now.Before(at) {
		s.listen()
	}
}

// nextDial returns when the next attempt may begin, zero while none is planned
// or something of the last session is still there.
func (s *Supervisor) nextDial() time.Time {
	if s.dial != nil || s.cur != nil || s.closing > 0 || s.listing {
		return time.Time{}
	}
	return s.nextAt
}

// work starts a worker. Run receives the message it returns.
func (s *Supervisor) work(f func() message) {
	s.workers++
	go func() { s.inbox <- f() }()
}

// errShutdown ends the calls that are in flight at shutdown.
var errShutdown = errors.New("the host is shutting down")

// shutdown ends everything and waits for it. A cause of ctx that the caller
// chose is the reason that people read.
func (s *Supervisor) shutdown() {
	why := errShutdown
	if cause := context.Cause(s.ctx); cause != s.ctx.Err() {
		why = cause
	}
	s.retire(why)
	s.nextAt = time.Time{}
	s.fire(shutdown, why.Error(), nil)
	for s.workers > 0 {
		m := <-s.inbox
		s.workers--
		s.leftover(m)
	}
	s.unlist()
}

// leftover handles a worker's message that came after the end of ctx: only a
// session that was just opened still matters.
func (s *Supervisor) leftover(m message) {
	switch m := m.(type) {
	case connected:
		s.dial = nil
		if m.sess != nil {
			s.close(m.sess)
		}
	case listed:
		s.listing = false
	case closed:
		s.closing--
	case ended, checked:
	}
}

// Reconnect asks for a new session on behalf of an operator, who is named in
// the log. A parked server wakes with its full budget, a waiting one stops
// waiting, a live session is replaced. It returns at once; many requests at
// the same time cause one reconnect.
func (s *Supervisor) Reconnect(by string) { s.mail.post(reconnect{by}) }

// Authorized says that a person has completed the server's authorization. A
// server that waits for it, or has failed for want of it, reconnects with its
// full budget.
func (s *Supervisor) Authorized() { s.mail.post(authorized{}) }

// Park ends the session on behalf of an operator and keeps the server parked
// until Reconnect.
func (s *Supervisor) Park(reason string) { s.mail.post(parkOrder{reason}) }

// Suspect says that the session may be wedged. It is checked by real I/O and
// replaced if it does not respond. The breaker's opening says the same.
func (s *Supervisor) Suspect() {
	if l := s.view.Load().live; l != nil {
		s.mail.post(suspect{l.gen})
	}
}

// Refresh asks for some lists to be fetched again. The supervisor does so by
// itself when the server says that they changed. Requests are gathered: a
// burst costs two fetches at most.
func (s *Supervisor) Refresh(l Lists) {
	if live := s.view.Load().live; live != nil && l != 0 {
		s.mail.post(stale{live.gen, l})
	}
}

// Session returns the live session, or nil if there is none at present. It is
// there before Config.Handler hears anything from it.
func (s *Supervisor) Session() session.Session {
	if l := s.view.Load().live; l != nil && !l.dead() {
		return l.sess
	}
	return nil
}

// Name returns the server's name.
func (s *Supervisor) Name() string { return s.cfg.Name }

func earliest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}
