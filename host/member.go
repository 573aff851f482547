package host

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/hermes-host/hermes-host/breaker"
	"github.com/hermes-host/hermes-host/host/config"
	"github.com/hermes-host/hermes-host/host/launcher"
	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

// A member is a server that the host looks after, under one configuration. When
// that changes another member takes over, and for a while there are both: the
// old one goes on with the calls that it has, all others go to its successor.
type member struct {
	h    *Host
	name string
	file *config.File
	cfg  *config.Config
	// base is added to the ids of this member's calls, since the relay knows
	// the calls of a server by them.
	base uint64

	server  atomic.Pointer[config.Server]
	memory  launcher.Memory // of all its sessions, and those that clients have for themselves
	advised atomic.Pointer[string]
	sup     *supervisor.Supervisor
	tap     *tap
	teller  *teller
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed when the supervisor has returned

	settle  sync.Once
	settled chan struct{} // closed when it has been ready or parked once

	mu    sync.Mutex
	calls int
	gone  bool          // no new calls
	next  *member       // takes them over; nil: nobody does
	idle  chan struct{} // closed when gone, and the last call has ended
}

var _ relay.Server = (*member)(nil)

// member builds what a server needs, without starting it.
func (h *Host) member(file *config.File, cfg *config.Config, s config.Server) *member {
	handle, _ := h.catalog.Handle(s.Name)
	m := &member{
		h: h, name: s.Name, file: file, cfg: cfg,
		base:    h.generation.Load() << 40,
		done:    make(chan struct{}),
		settled: make(chan struct{}),
		idle:    make(chan struct{}),
	}
	m.server.Store(&s)
	m.tap = &tap{next: h.relay.Lister(s.Name, handle), h: h, name: s.Name}
	sc := h.supervision(cfg, s)
	sc.Disabled = !s.Enabled
	sc.Transport = &transport{m: m}
	sc.Handler = ear{m, h.relay.HandlerOf(s.Name, m)}
	sc.Lister = m.tap
	m.teller = &teller{h: h, cfg: cfg}
	sc.OnTransition, sc.OnAttempt = m.transition, m.teller.tell
	m.sup = supervisor.New(sc)
	if !s.Enabled {
		m.settle.Do(func() { close(m.settled) })
	}
	return m
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

// start runs the supervisor until the host stops or cancel is called. The
// caller holds h.mu.
func (m *member) start() {
	ctx, cancel := context.WithCancelCause(m.h.life)
	m.cancel = cancel
	m.h.running.Go(func() {
		defer close(m.done)
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

// advise writes new advice to the log.
func (m *member) advise() {
	now := m.advice()
	if was := m.advised.Swap(&now); now != "" && (was == nil || *was != now) {
		m.h.log.Warn("the configuration works, but should be changed", "server", m.name, "advice", now, "place", m.server.Load().Where())
	}
}

// Session implements [relay.Server].
func (m *member) Session() session.Session { return m.sup.Session() }

// Await implements [relay.Server].
func (m *member) Await(ctx context.Context) error { return m.sup.Await(ctx) }

// Call implements [relay.Server]. Once another member has taken over, it makes
// the call.
func (m *member) Call(ctx context.Context, req session.Request, opt supervisor.CallOptions) (session.Reply, error) {
	for !m.enter() {
		next := m.successor()
		if next == nil {
			return m.sup.Call(ctx, req, opt) // and says that it is shut down
		}
		m = next
	}
	defer m.leave()
	if started := req.Started; started != nil && m.base != 0 {
		req.Started = func(id uint64) { started(m.base + id) }
	}
	return m.sup.Call(ctx, req, opt)
}

func (m *member) enter() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return false
	}
	m.calls++
	return true
}

func (m *member) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.calls--; m.gone && m.calls == 0 {
		close(m.idle)
	}
}

func (m *member) successor() *member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.next
}

// retire ends the taking of calls, and hands them to next if that is not nil.
// After it, idle is closed when those that it has are over.
func (m *member) retire(next *member) {
	m.tap.retire(next)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone, m.next = true, next
	if m.calls == 0 {
		close(m.idle)
	}
}

// ear hears what a member's session sends, and marks it as this member's.
type ear struct {
	m *member
	session.Handler
}

// Notification implements [session.Handler].
func (e ear) Notification(n session.Notification) {
	if n.Related != 0 {
		n.Related += e.m.base
	}
	e.Handler.Notification(n)
}

// Request implements [session.Handler].
func (e ear) Request(q session.ServerRequest) {
	if q.Related != 0 {
		q.Related += e.m.base
	}
	e.Handler.Request(q)
}

// Log implements [session.Handler]. Servers print what they were given.
func (e ear) Log(line session.LogLine) {
	line.Text = e.m.cfg.Redact(line.Text)
	e.Handler.Log(line)
}

// A tap decides whose lists reach the catalog while a server has two members.
type tap struct {
	next supervisor.Lister
	h    *Host
	name string

	mu        sync.Mutex
	staged    bool // another member is the one that clients see
	withdrawn bool // while staged
	retired   bool
	listing   int
	heir      *member
}

// List implements [supervisor.Lister]. A member that waits to take over lists,
// too: that is what makes it ready.
func (t *tap) List(ctx context.Context, s session.Session, which supervisor.Lists) error {
	t.mu.Lock()
	if t.retired {
		t.mu.Unlock()
		return errSucceeded
	}
	t.listing++
	t.mu.Unlock()
	err := t.next.List(ctx, s, which)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.listing--
	if _, partial := errors.AsType[*supervisor.PartialError](err); err == nil || partial {
		t.withdrawn = false
	}
	if t.retired && t.heir != nil {
		t.heir.sup.Refresh(supervisor.AllLists) // ours may have replaced its lists
	}
	return err
}

var errSucceeded = errors.New("the configuration has changed, and another session has taken over")

// Withdraw implements [supervisor.Lister].
func (t *tap) Withdraw() {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.retired:
	case t.staged:
		t.withdrawn = true
	default:
		t.next.Withdraw()
	}
}

// promote makes the member the one that clients see.
func (t *tap) promote() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.staged = false; t.withdrawn {
		t.next.Withdraw()
	}
}

// retire keeps from the catalog what the member still says.
func (t *tap) retire(heir *member) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retired, t.heir = true, heir
}
