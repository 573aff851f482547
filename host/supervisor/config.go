package supervisor

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/breaker"
	"github.com/hermes-host/hermes-host/host/session"
)

// Config says what to supervise and how. Name and Transport are required, the
// zero value of everything else is right.
type Config struct {
	Name     string
	Disabled bool // never connect; calls are refused

	Transport session.Transport
	// Handler hears what the live session sends, and nothing of earlier ones;
	// nil: nobody does. What a session sends before Supervisor.Session returns
	// it is kept until then, log lines excepted.
	Handler session.Handler
	// Lister fetches what the server offers; nil: nothing is fetched.
	Lister Lister
	// Gate bounds how many supervisors connect at a time; nil: nothing does.
	Gate   *Gate
	Logger hclog.Logger // nil: nothing is logged
	// OnTransition hears every change of state, in order, from Run's
	// goroutine. It must not block and must not wait for the supervisor.
	OnTransition func(Transition)
	// OnAttempt hears, in the same way, of what leaves the state as it is: a
	// failed attempt that another will follow, and the beginning and end of a
	// Trouble.
	OnAttempt func(Transition)

	// Aside is asked about every change of state and every failed attempt, from
	// Run's goroutine, before anybody hears of it. It names the session, such as
	// "earlier session", if the state is not the one that the server is in for
	// others; empty: it is. Nil: it always is. It must not block.
	Aside func(State) string
	// Generations counts attempts. Supervisors that look after a server one after
	// the other share it, so that a number means one session of the server; nil:
	// the supervisor has its own.
	Generations *atomic.Uint64

	// Breaker is the circuit breaker of calls. Its Lease defaults to a minute
	// more than Timeouts.Call.
	Breaker   breaker.Config
	Retry     Retry
	Revive    Revive
	CrashLoop CrashLoop
	Timeouts  Timeouts

	// KeepAlive is how often an idle session is checked; 0: never.
	KeepAlive time.Duration

	// Jitter returns the random part of waits, in [0,1); nil: math/rand.
	Jitter func() float64

	_ struct{}
}

// Retry says how attempts to connect follow each other.
type Retry struct {
	Base   time.Duration // before the second attempt in a row; 1 s
	Max    time.Duration // the wait doubles up to this; 60 s
	Budget int           // failed attempts in a row before the server parks; 5
}

// Revive says how often a parked server is tried again without being asked.
type Revive struct {
	Min time.Duration // the first wait; 60 s
	Max time.Duration // the wait doubles up to this; 5 min
}

// CrashLoop says when a server that starts well and then dies is parked.
type CrashLoop struct {
	Deaths int           // more than so many unproven sessions within Window park it; 10
	Window time.Duration // 5 min
	// Proven is the age at which a session is proven although no call was
	// answered; 30 s. The death of an unproven session leaves the back-off
	// where it was.
	Proven time.Duration
}

// Timeouts bound what can hang.
type Timeouts struct {
	Connect  time.Duration // process start and MCP handshake, with a package manager's cold cache; 30 s
	List     time.Duration // fetching all lists; 30 s
	Call     time.Duration // one call, unless CallOptions says otherwise; 5 min
	CallWait time.Duration // how long a call waits for a session; 2 s
	Health   time.Duration // one check; 5 s
	Close    time.Duration // ending a session in order; 10 s
}

// Lists names lists that a server offers.
type Lists uint8

const (
	Tools     Lists = 1 << iota
	Resources       // with the templates
	Prompts
	AllLists = Tools | Resources | Prompts
)

// ChangedLists returns the lists that a notification declares changed, 0 if it
// is another notification.
func ChangedLists(method string) Lists {
	switch method {
	case "notifications/tools/list_changed":
		return Tools
	case "notifications/resources/list_changed":
		return Resources
	case "notifications/prompts/list_changed":
		return Prompts
	}
	return 0
}

// A PartialError says that the server answered but refused some lists. The
// others are published: one bad list must not take a server's tools away.
type PartialError struct {
	Lists Lists // to be asked for again
	Err   error
}

// Error returns the text of Err.
func (e *PartialError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *PartialError) Unwrap() error { return e.Err }

// A Lister takes over what a server offers. The supervisor calls its methods
// one at a time.
type Lister interface {
	// List fetches lists over a session and publishes them. It returns a
	// *PartialError if the server refused some, another error if it published
	// nothing, and ends soon after ctx.
	List(ctx context.Context, sess session.Session, which Lists) error
	// Withdraw takes everything of the server away. It must not block. It may
	// be called again without a List between.
	Withdraw()
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, val time.Duration) {
		if *d <= 0 {
			*d = val
		}
	}
	set(&c.Retry.Base, time.Second)
	set(&c.Retry.Max, time.Minute)
	set(&c.Revive.Min, time.Minute)
	set(&c.Revive.Max, 5*time.Minute)
	set(&c.CrashLoop.Window, 5*time.Minute)
	set(&c.CrashLoop.Proven, 30*time.Second)
	set(&c.Timeouts.Connect, 30*time.Second)
	set(&c.Timeouts.List, 30*time.Second)
	set(&c.Timeouts.Call, 5*time.Minute)
	set(&c.Timeouts.CallWait, 2*time.Second)
	set(&c.Timeouts.Health, 5*time.Second)
	set(&c.Timeouts.Close, 10*time.Second)
	set(&c.Breaker.Lease, c.Timeouts.Call+time.Minute)
	c.Retry.Max = max(c.Retry.Max, c.Retry.Base)
	c.Revive.Max = max(c.Revive.Max, c.Revive.Min)
	if c.Retry.Budget <= 0 {
		c.Retry.Budget = 5
	}
	if c.CrashLoop.Deaths <= 0 {
		c.CrashLoop.Deaths = 10
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.Handler == nil {
		c.Handler = deaf{}
	}
	if c.Lister == nil {
		c.Lister = nothing{}
	}
	if c.OnTransition == nil {
		c.OnTransition = func(Transition) {}
	}
	if c.OnAttempt == nil {
		c.OnAttempt = func(Transition) {}
	}
	if c.Aside == nil {
		c.Aside = func(State) string { return "" }
	}
	if c.Generations == nil {
		c.Generations = new(atomic.Uint64)
	}
	if c.Jitter == nil {
		c.Jitter = rand.Float64
	}
	return c
}

type deaf struct{}

func (deaf) Notification(session.Notification) {}
func (deaf) Request(session.ServerRequest)     {}
func (deaf) Log(session.LogLine)               {}

type nothing struct{}

func (nothing) List(context.Context, session.Session, Lists) error { return nil }
func (nothing) Withdraw()                                          {}
