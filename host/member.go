package host

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/hermes-host/hermes-host/breaker"
	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/config"
	"github.com/hermes-host/hermes-host/host/launcher"
	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
	"github.com/hermes-host/hermes-host/host/takeover"
)

// A member is a server that the host looks after, under one configuration. When
// that changes another member takes over, and for a while there are both: the
// old one goes on with the calls that it has, all others go to its successor.
type member struct {
	h       *Host
	name    string
	file    *config.File
	cfg     *config.Config
	server  atomic.Pointer[config.Server]
	memory  launcher.Memory // of all its sessions, and those that clients have for themselves
	advised atomic.Pointer[string]
	begun   atomic.Bool // its supervisor runs, or has run
	sup     *supervisor.Supervisor
	turn    *takeover.Turn
	teller  *teller
	story   *story // of the server
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed when the supervisor has returned
	own     ownCounters   // of the sessions that clients have for themselves

	settle  sync.Once
	settled chan struct{} // closed when it has been ready or parked once
}

var _ relay.Server = (*member)(nil)

// member builds what a server needs, without starting it. It is to take over from
// another, unless old is nil.
func (h *Host) member(file *config.File, cfg *config.Config, s config.Server, old *member) *member {
	handle, _ := h.catalog.Handle(s.Name)
	m := &member{
		h: h, name: s.Name, file: file, cfg: cfg,
		done:    make(chan struct{}),
		settled: make(chan struct{}),
	}
	m.server.Store(&s)
	base := h.generation.Load() << 40 // the relay knows the calls of all members of a server by their ids
	m.turn = takeover.New(base, shelf{handle, h.relay, s.Name})
	sc := h.supervision(cfg, s)
	sc.Disabled = !s.Enabled
	sc.Transport = &transport{m: m}
	sc.Handler = redacting{numbered{h.relay.HandlerOf(s.Name, m), base}, cfg}
	sc.Lister = m.turn
	if old != nil {
		m.story = old.story
	} else {
		m.story = &story{now: m}
	}
	sc.Generations = &m.story.generations
	sc.Aside = func(to supervisor.State) string { return m.story.aside(m, to) }
	m.teller = &teller{h: h, cfg: cfg}
	sc.OnTransition, sc.OnAttempt = m.transition, m.teller.tell
	m.sup = supervisor.New(sc)
	m.turn.Begin(m.sup)
	if !s.Enabled {
		m.settle.Do(func() { close(m.settled) })
	}
	return m
}

// A shelf is a server's place in the catalog. Whose lists come to it gets to
// know what clients want to hear.
type shelf struct {
	*catalog.Handle
	relay  *relay.Relay
	server string
}

// Fetch implements [takeover.Shelf].
func (s shelf) Fetch(ctx context.Context, from session.Session, which supervisor.Lists) (*catalog.Listing, error) {
	s.relay.Introduce(s.server, from)
	return s.Handle.Fetch(ctx, from, which)
}

// supervision is what the configuration of a server says about the care for
// its sessions.
func (h *Host) supervision(cfg *config.Config, s config.Server) supervisor.Config {
	return supervisor.Config{
		Name:      s.Name,
		Gate:      h.gate,
		Logger:    discreet{h.log, cfg.Redact},
		Breaker:   breaker.Config{Threshold: s.Breaker.Threshold, Cooldown: s.Breaker.Cooldown},
		Retry:     supervisor.Retry{Base: s.Retry.Base, Max: s.Retry.Max, Budget: s.Retry.Budget},
		Revive:    supervisor.Revive{Min: s.Revive.Min, Max: s.Revive.Max},
		CrashLoop: supervisor.CrashLoop{Deaths: s.CrashLoop.Deaths, Window: s.CrashLoop.Window, Proven: s.CrashLoop.Proven},
		Timeouts: supervisor.Timeouts{
			Connect: s.Timeouts.Connect, List: s.Timeouts.List, Call: s.Timeouts.Call,
			Close: s.Timeouts.Close, CallWait: s.CallWait, Health: s.Timeouts.Health,
		},
		KeepAlive: s.KeepAlive,
	}
}

// start runs the supervisor until the host stops or cancel is called, once others
// have ended. The caller holds h.mu.
func (m *member) start(after []*member) {
	ctx, cancel := context.WithCancelCause(m.h.life)
	m.cancel = cancel
	m.h.running.Go(func() {
		defer close(m.done)
		for _, o := range after {
			<-o.done // it is about to end
		}
		m.begun.Store(true)
		if err := m.sup.Run(ctx); err != nil && ctx.Err() == nil {
			m.h.log.Error("the supervisor has ended", "server", m.name, "error", err)
		}
	})
}

// transition hears from the supervisor's goroutine.
func (m *member) transition(t supervisor.Transition) {
	if t.To == supervisor.Ready || t.To == supervisor.Parked || t.To == supervisor.Stopped {
		m.settle.Do(func() { close(m.settled) })
	}
	m.teller.tell(t)
}

// advice says what a person should change in the configuration, though it
// works; empty if nothing.
func (m *member) advice() string { return m.cfg.Redact(m.memory.Advice()) }

// redact returns a text without the secrets of the configuration.
func (m *member) redact(text string) string {
	if m.cfg == nil {
		return text
	}
	return m.cfg.Redact(text)
}

// advise writes new advice to the log.
func (m *member) advise() {
	now := m.advice()
	if was := m.advised.Swap(&now); now != "" && (was == nil || *was != now) {
		m.h.log.Warn("the configuration works, but should be changed", "server", m.name, "advice", now, "place", m.server.Load().Where())
	}
}

// Session implements [relay.Server], for what the member's own session asks.
func (m *member) Session() session.Session { return m.sup.Session() }

// Await implements [relay.Server].
func (m *member) Await(ctx context.Context) error { return m.turn.Await(ctx) }

// Call implements [relay.Server]. Once another member has taken over, it makes
// the call.
func (m *member) Call(ctx context.Context, req session.Request, opt supervisor.CallOptions) (session.Reply, error) {
	return m.turn.Call(ctx, req, opt)
}

// numbered marks what a session sends as belonging to a call, by the ids that
// the relay knows calls by: those of several sessions, one after the other.
type numbered struct {
	session.Handler
	base uint64
}

// Notification implements [session.Handler].
func (n numbered) Notification(note session.Notification) {
	if note.Related != 0 {
		note.Related += n.base
	}
	n.Handler.Notification(note)
}

// Request implements [session.Handler].
func (n numbered) Request(q session.ServerRequest) {
	if q.Related != 0 {
		q.Related += n.base
	}
	n.Handler.Request(q)
}
