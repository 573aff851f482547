package simulation

import (
	"context"
	"fmt"
	"time"

	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

// steps are what can happen, with their weights.
var steps = []struct {
	weight int
	play   func(*history)
}{
	{8, (*history).pass},
	{6, func(h *history) {
		m := random(h.rng)
		h.step("the server, when %s", m)
		h.world.set(m)
	}},
	{9, (*history).call},
	{2, func(h *history) { h.dies("the plugin crashes", gone("the plugin died")) }},
	{2, func(h *history) {
		if s := h.world.latest(); s != nil {
			later := []time.Duration{0, 20 * time.Millisecond, 400 * time.Millisecond}[h.rng.IntN(3)]
			h.step("the server crashes; its session hears of it in %s", later)
			s.kill(later)
		}
	}},
	{1, func(h *history) {
		h.dies("the server forgets the session", &session.End{Class: session.Lost, Message: "404", Retryable: true})
	}},
	{1, func(h *history) {
		h.dies("the authorization is revoked", &session.End{Class: session.Auth, Message: "revoked"})
	}},
	{1, func(h *history) { h.dies("the session ends without a reason", nil) }},
	{3, (*history).speak},
	{2, func(h *history) {
		if s := h.world.latest(); s != nil {
			kind := []catalog.Kind{catalog.Tools, catalog.Resources, catalog.Prompts}[h.rng.IntN(3)]
			h.step("session %d changes its %s", s.n, kinds[kind].member)
			s.change(kind)
		}
	}},
	{3, (*history).reconnect},
	{1, func(h *history) { h.step("an operator parks it"); h.server().sup.Park("the simulation") }},
	{1, func(h *history) { h.step("a person authorizes it"); h.server().sup.Authorized() }},
	{1, func(h *history) { h.step("somebody suspects it"); h.server().sup.Suspect() }},
	{1, func(h *history) { h.step("somebody wants fresh lists"); h.server().sup.Refresh(supervisor.Tools) }},
	{3, (*history).reload},
	{2, (*history).takeover},
}

var weights = func() (sum int) {
	for _, s := range steps {
		sum += s.weight
	}
	return sum
}()

// next plays a step. Three of four are followed by what comes of them and by
// the invariants; the next begins in the same instant otherwise.
func (h *history) next() {
	n := h.rng.IntN(weights)
	for _, s := range steps {
		if n -= s.weight; n < 0 {
			s.play(h)
			break
		}
	}
	if h.rng.IntN(4) > 0 {
		h.check()
	}
}

// pass lets time pass. Hours are what is left of a clock that jumps and of a
// machine that slept: all timers are due.
func (h *history) pass() {
	d := []time.Duration{
		time.Millisecond, linger - 1, linger, 900 * time.Millisecond, callWait, 3 * time.Second,
		callLimit, 31 * time.Second, cooldown, 61 * time.Second, 6 * time.Minute, 3 * time.Hour,
	}[h.rng.IntN(12)]
	if d > time.Hour && h.rng.IntN(4) > 0 {
		d = time.Second
	}
	h.step("%s pass", d)
	h.after(d)
}

// reconnect is an operator's word, or that of many. It causes an attempt at
// once, unless something of the last is still there, with a full budget.
func (h *history) reconnect() {
	alone := h.rng.IntN(2) == 0
	if alone {
		h.after(0)
	}
	h.world.mu.Lock()
	before := h.world.dials
	h.world.mu.Unlock()
	n := []int{1, 1, 20}[h.rng.IntN(3)]
	h.step("%d × reconnect", n)
	for range n {
		h.server().sup.Reconnect("the simulation")
	}
	if !alone {
		return
	}
	h.after(0)
	st := h.server().sup.Status()
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	if h.world.dials == before && h.world.open == 0 {
		h.fault("a reconnect was asked for and nothing happens; %s, next attempt in %s", st.State, time.Until(st.NextAttempt))
	}
	if st.State == supervisor.Reconnecting && st.Left < budget-1 {
		h.fault("a reconnect was asked for, and %d attempts are left", st.Left)
	}
}

func (h *history) dies(how string, end *session.End) {
	if s := h.world.latest(); s != nil {
		h.step("%s", how)
		s.die(end)
	}
}

// speak has a session of any age send something. What the live one sends is
// heard at once, what a dead one sends never.
func (h *history) speak() {
	all := h.world.all()
	if len(all) == 0 {
		return
	}
	s := all[h.rng.IntN(len(all))]
	if h.rng.IntN(2) == 0 {
		s = all[len(all)-1]
	}
	h.after(0)
	live := h.server().sup.Session() == session.Session(s)
	h.step("session %d speaks; it is the live one: %v", s.n, live)
	h.mu.Lock()
	before := h.heard[s.n]
	h.mu.Unlock()
	s.speak()
	h.mu.Lock()
	heard := h.heard[s.n] - before
	h.mu.Unlock()
	switch {
	case live && heard != 2:
		h.fault("of 2 events of the live session %d came through", heard)
	case !live && s.deadFor() > 0 && heard != 0:
		h.fault("%d events of a dead session came through", heard)
	}
}

// ears hear what comes through.
type ears struct {
	h *history
	s *server
}

func (e ears) Notification(n session.Notification) {
	if n.Related == 0 {
		return
	}
	e.h.mu.Lock()
	e.h.heard[int(n.Related)]++
	e.h.mu.Unlock()
	if live, ok := e.s.sup.Session().(*sess); ok && live.n != int(n.Related) {
		e.h.fault("heard session %d while session %d is the live one", n.Related, live.n)
	}
}
func (ears) Request(session.ServerRequest) {}
func (ears) Log(session.LogLine)           {}

// reload changes the configuration: of the catalog alone, of the server, whose
// supervisor is replaced by another, or it removes the server and brings it
// back.
func (h *history) reload() {
	h.config.last, h.config.hides = h.rng.IntN(2) == 0, h.rng.IntN(2) == 0
	switch h.rng.IntN(3) {
	case 0:
		h.step("reload: the catalog is configured as %+v", h.config)
		h.configure()
	case 1:
		h.step("reload: another supervisor, and the catalog is configured as %+v", h.config)
		h.renew(func() { h.configure() })
	case 2:
		h.step("reload: the server is removed")
		h.renew(func() {
			h.config.there = false
			h.configure()
			h.check()
			h.after([]time.Duration{0, time.Second, time.Minute}[h.rng.IntN(3)])
			h.config.there = true
			h.step("reload: it is back; the catalog is configured as %+v", h.config)
			h.configure()
		})
	}
}

// takeoverBy is how long a successor may take to come up.
const takeoverBy = 30 * time.Second

// takeover has another supervisor come up beside the present one, which goes on
// meanwhile, and take over when it is ready, has parked, or has had its time.
func (h *history) takeover() {
	old := h.server()
	w := newWorld(h)
	w.thaw = make(chan struct{})
	w.dials = old.world.dialled() + 1000 // its sessions are told apart by their numbers
	if h.rng.IntN(2) == 0 {
		w.manners = random(h.rng)
	}
	h.config.last, h.config.hides = h.rng.IntN(2) == 0, h.rng.IntN(2) == 0
	h.step("reload: another supervisor comes up beside; its server, when %s", w.now())
	next := h.begin("x", w, old)
	late := time.After(takeoverBy)
	for waiting := true; waiting; {
		select {
		case <-next.settled:
			waiting = false
		case <-late:
			waiting = false
		case <-time.After([]time.Duration{time.Millisecond, time.Second, 5 * time.Second}[h.rng.IntN(3)]):
			h.meanwhile(old)
		}
	}
	served := old.sup.Session() != nil && len(h.read()[catalog.Tools]) > 0
	old.turn.Retire(next.turn)
	next.turn.Promote()
	h.configure()
	h.present.Store(next)
	h.world = w
	st := next.sup.Status().State
	h.step("reload: it takes over, %s", st)
	if served && st == supervisor.Ready && len(h.read()[catalog.Tools]) == 0 {
		h.fault("both sessions are up, and the catalog shows neither's tools")
	}
	params := fmt.Appendf(nil, `{"call":"handed.%d"}`, h.steps)
	old.world.mu.Lock()
	old.world.handed = params
	old.world.mu.Unlock()
	h.callers.Go(func() { // whoever has found the old one before
		_, _ = old.turn.Call(context.Background(), session.Request{Method: "tools/call", Params: params}, supervisor.CallOptions{})
	})
	h.after(0)
	if st := old.sup.Status().State; st == supervisor.Ready || st == supervisor.Parked {
		h.check()
	} // else the old one may be at the gate, for which the new one then waits
	h.finish(old)
	h.check()
}

// meanwhile lets something happen to a supervisor while its successor comes up.
func (h *history) meanwhile(old *server) {
	switch h.rng.IntN(4) {
	case 0:
		h.call()
	case 1:
		h.dies("the plugin crashes", gone("the plugin died"))
	case 2:
		if s := h.world.latest(); s != nil {
			h.step("session %d changes its tools", s.n)
			s.change(catalog.Tools)
		}
	case 3:
		h.step("an operator parks it")
		old.sup.Park("the simulation")
	}
	h.after(0)
}

// finish ends a supervisor from which another has taken over, once its calls
// have ended.
func (h *history) finish(old *server) {
	select {
	case <-old.turn.Idle():
	case <-time.After(2 * longest):
		h.fault("calls of the supervisor from which another took over have not ended in %s", 2*longest)
	}
	h.end(old)
	h.step("the old supervisor has ended")
}

// renew ends the supervisor and starts another for the same world.
func (h *history) renew(between func()) {
	if h.rng.IntN(4) == 0 {
		h.server().sup.Reconnect("somebody, at the same time")
	}
	h.end(h.server())
	h.check()
	between()
	h.present.Store(h.begin("x", h.world, nil))
}
