package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/breaker"
	"github.com/hermes-host/hermes-host/host/session"
)

var (
	seeds = flag.Int("sim.seeds", 500, "how many histories TestSimulation plays")
	first = flag.Uint64("sim.first", 1, "the seed of the first")
)

// TestSimulation plays random histories against the supervisor: the server
// dies, hangs, refuses, comes back, asks for authorization, in any order and at
// any moment, while callers call, operators operate and old sessions speak up.
// After every step the invariants are checked. At the end of most histories
// the world is healed, and the server must come back in bounded time. A history
// is a function of its seed, up to the order in which goroutines run within
// one instant. A failing one prints what happened.
func TestSimulation(t *testing.T) {
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		ok := t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, seed) })
		})
		if !ok {
			return
		}
	}
}

// A sim is one history.
type sim struct {
	*rig
	t     *testing.T
	rng   *rand.Rand
	trace []string
	log   bytes.Buffer
	wg    sync.WaitGroup // callers

	mu     sync.Mutex
	acted  map[string]int // how often a server may have acted on a call
	faults []string       // found by callers and by the world
}

// The limits of a simulated call.
const (
	simTimeout = 20 * time.Second
	simLongest = 2*(simTimeout+linger) + 3*2*time.Second
)

func play(t *testing.T, seed uint64) {
	m := &sim{t: t, rng: rand.New(rand.NewPCG(seed, 0)), acted: map[string]int{}}
	w := &world{}
	m.moods(w)
	m.rig = run(t, w, func(c *Config) {
		c.Jitter = nil
		c.KeepAlive = []time.Duration{0, 20 * time.Second}[m.rng.IntN(2)]
		c.Timeouts.Call = simTimeout
		c.Handler = watcher{m}
		c.Logger = hclog.New(&hclog.LoggerOptions{Output: &m.log, Level: hclog.Error})
	})
	defer func() {
		m.finish()
		m.wg.Wait()
		m.verdicts()
		if t.Failed() {
			t.Logf("seed %d:\n%s", seed, strings.Join(m.trace, "\n"))
		}
	}()
	for range 10 + m.rng.IntN(40) {
		m.step()
		m.check()
		if t.Failed() {
			return
		}
	}
	switch m.rng.IntN(4) {
	case 0:
		m.note("shutdown in the middle")
	case 1:
		m.recovers("with calls", 60*time.Second+30*time.Second+30*time.Second+10*time.Second+5*time.Second, true)
	default:
		m.recovers("by itself", 330*time.Second+30*time.Second+30*time.Second+10*time.Second+5*time.Second, false)
	}
}

func (m *sim) note(format string, args ...any) {
	st := m.s.Status()
	m.trace = append(m.trace, fmt.Sprintf("%10s %-12s %s", time.Since(m.start).Round(time.Millisecond), st.State, fmt.Sprintf(format, args...)))
}

func (m *sim) fault(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, fmt.Sprintf(format, args...))
}

// moods gives the world random manners. They are data, so that goroutines that
// meet them draw nothing.
func (m *sim) moods(w *world) string {
	pick := func(n int) int { return max(0, m.rng.IntN(n+2)-2) } // the good one is the likeliest
	dial, call, list, health := pick(9), pick(8), pick(5), pick(4)
	w.dial = func(ctx context.Context, _ int) error {
		switch dial {
		case 1:
			return gone("refused")
		case 2:
			<-ctx.Done()
			return context.Cause(ctx)
		case 3:
			<-time.After(3 * time.Second)
		case 4:
			<-time.After(700 * time.Millisecond)
			return errors.New("handshake failed")
		case 5:
			return &session.End{Class: session.Auth, Message: "401"}
		case 6:
			return &session.End{Class: session.ConfigFault, Message: "no such command"}
		case 7:
			return &session.End{Class: session.Protocol, Message: "HTML"}
		case 8:
			return &session.End{Class: session.Gone, Message: "hopeless"}
		}
		return nil
	}
	w.call = func(ctx context.Context, f *fake, req session.Request) (session.Reply, error) {
		switch call {
		case 1:
			return session.Reply{}, session.Failuref(true, "connection refused")
		case 2:
			f.die(gone("broken pipe"))
			return session.Reply{}, session.Failuref(true, "broken pipe")
		}
		m.act(req)
		switch call {
		case 3:
			<-ctx.Done()
			return session.Reply{}, context.Cause(ctx)
		case 4:
			f.die(gone("crashed"))
			return session.Reply{}, session.Failuref(false, "EOF")
		case 5:
			return session.Reply{}, &session.Failure{Reason: session.HTTPStatus, Message: "502"}
		case 6:
			select {
			case <-time.After(5 * time.Second):
			case <-ctx.Done():
				return session.Reply{}, context.Cause(ctx)
			}
		case 7:
			return session.Reply{}, &session.Failure{Reason: session.NeedsAuth, Message: "403"}
		}
		return session.Reply{Result: json.RawMessage(`{}`)}, nil
	}
	w.list = func(ctx context.Context, f *fake, _ Lists) error {
		switch list {
		case 1:
			return session.Failuref(false, "list failed")
		case 2:
			<-ctx.Done()
			return context.Cause(ctx)
		case 3:
			select {
			case <-time.After(2 * time.Second):
			case <-ctx.Done():
			}
		case 4:
			f.die(gone("died while listing"))
		}
		return nil
	}
	w.healthy = func(ctx context.Context, f *fake) error {
		switch health {
		case 1:
			<-ctx.Done()
			return context.Cause(ctx)
		case 2:
			return session.Failuref(false, "reset")
		case 3:
			f.die(gone("died of a ping"))
		}
		return nil
	}
	w.closing = []time.Duration{0, 0, time.Second, time.Minute}[m.rng.IntN(4)]
	return fmt.Sprintf("dial %d, call %d, list %d, health %d, closing %s", dial, call, list, health, w.closing)
}

// made returns the sessions so far.
func (m *sim) made() []*fake {
	return get(m.world, func(w *world) []*fake { return slices.Clone(w.sessions) })
}

// act notes that a server may have acted on a call.
func (m *sim) act(req session.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.acted[string(req.Params)]++
}

// step does one thing.
func (m *sim) step() {
	switch m.rng.IntN(12) {
	case 0, 1, 2:
		d := []time.Duration{time.Millisecond, 900 * time.Millisecond, 3 * time.Second, 31 * time.Second, 61 * time.Second, 6 * time.Minute}[m.rng.IntN(6)]
		m.after(d)
		m.note("after %s", d)
	case 3, 4:
		m.mood()
	case 5:
		if len(m.made()) > 0 {
			m.note("session %d dies", m.latest().n)
			m.latest().die([]*session.End{nil, gone("killed"), {Class: session.Lost, Message: "404", Retryable: true}, {Class: session.Auth, Message: "revoked"}}[m.rng.IntN(4)])
		}
	case 6:
		if made := m.made(); len(made) > 0 {
			f := made[m.rng.IntN(len(made))]
			select {
			case <-f.done:
				m.note("old session %d speaks", f.n)
			default:
				m.note("session %d speaks", f.n)
			}
			f.handler.Notification(session.Notification{Method: strconv.Itoa(f.n)})
			f.handler.Notification(session.Notification{Method: "notifications/prompts/list_changed"})
		}
	case 7:
		n := []int{1, 1, 20}[m.rng.IntN(3)]
		m.note("%d × reconnect", n)
		for range n {
			m.s.Reconnect("sim")
		}
	case 8:
		switch m.rng.IntN(4) {
		case 0:
			m.note("operator parks")
			m.s.Park("sim")
		case 1:
			m.note("authorized")
			m.s.Authorized()
		case 2:
			m.note("suspect")
			m.s.Suspect()
		case 3:
			m.note("refresh")
			m.s.Refresh(Tools)
		}
	default:
		m.callers([]int{1, 3, 30}[m.rng.IntN(3)])
	}
	if m.rng.IntN(3) > 0 { // otherwise the next step comes in the same instant
		m.after(0)
	}
}

func (m *sim) mood() {
	var text string
	m.set(func(w *world) { text = m.moods(w) })
	m.note("world: %s", text)
}

// callers starts calls and checks what becomes of them.
func (m *sim) callers(n int) {
	opt := CallOptions{Idempotent: m.rng.IntN(2) == 0}
	patience := []time.Duration{time.Hour, time.Hour, time.Second}[m.rng.IntN(3)]
	m.note("%d calls, idempotent %v, patience %s", n, opt.Idempotent, patience)
	for i := range n {
		id := fmt.Sprintf(`{"call":"%d.%d"}`, len(m.trace), i)
		m.wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			at := time.Now()
			_, err := m.s.Call(ctx, session.Request{Method: "tools/call", Params: json.RawMessage(id)}, opt)
			took := time.Since(at)
			m.mu.Lock()
			acted := m.acted[id]
			m.mu.Unlock()
			if took > min(patience, simLongest) {
				m.fault("call %s took %s: %v", id, took, err)
			}
			if most := 1; acted > most && !opt.Idempotent || acted > 2 {
				m.fault("call %s was sent %d times", id, acted)
			}
			if err == nil {
				if acted == 0 {
					m.fault("call %s was answered by nobody", id)
				}
				return
			}
			if err.Error() == "" {
				m.fault("call %s: an empty error", id)
			}
			_, reconnecting := as[*ReconnectingError](err)
			_, open := as[*OpenError](err)
			_, unavailable := as[*UnavailableError](err)
			if acted > 0 && !opt.Idempotent && (reconnecting || open || unavailable) {
				m.fault("call %s: the error says that nothing was sent: %v", id, err)
			}
		})
	}
}

// A watcher is the handler: it hears nothing from a session that has been dead
// since an earlier instant.
type watcher struct{ m *sim }

func (w watcher) Notification(n session.Notification) {
	for _, f := range w.m.made() {
		if strconv.Itoa(f.n) == n.Method && f.deadSince() > 0 {
			w.m.fault("heard from session %d, dead for %s", f.n, f.deadSince())
		}
	}
}
func (watcher) Request(session.ServerRequest) {}
func (watcher) Log(session.LogLine)           {}

// verdicts reports what callers and the world have found.
func (m *sim) verdicts() {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.faults {
		m.t.Error(f)
	}
	m.faults = nil
	if strings.Contains(m.log.String(), "bug") {
		m.t.Error(m.log.String())
	}
	for _, f := range m.made() {
		if n := f.late.Load(); n > 0 {
			m.t.Errorf("%d calls to session %d after its death", n, f.n)
		}
	}
}

// check holds the present state to the invariants.
func (m *sim) check() {
	m.t.Helper()
	synctest.Wait()
	m.verdicts()
	st := m.s.Status()
	bad := func(format string, args ...any) {
		m.t.Helper()
		m.t.Errorf("%s: %s; status %+v", fmt.Sprintf(format, args...), m.trace[len(m.trace)-1], st)
	}
	m.world.mu.Lock()
	overlaps, listed, open, moves := m.overlaps, m.listed, m.open, slices.Clone(m.moves)
	m.world.mu.Unlock()
	if overlaps > 0 {
		bad("two sessions at a time")
	}
	select {
	case <-m.ended:
		bad("Run returned")
	default:
	}
	at := Connecting
	for _, tr := range moves {
		if tr.From != at || tr.Reason == "" || tr.At.Before(m.start) || !slices.Contains(reachable(at), tr.To) {
			bad("transition %+v", tr)
		}
		at = tr.To
	}
	if at != st.State {
		bad("the transitions end in %s", at)
	}
	next := time.Until(st.NextAttempt)
	switch st.State {
	case Ready:
		if m.s.Session() == nil || !listed || st.Left != 5 {
			bad("ready without a session, lists or budget")
		}
	case Parked:
		if listed || m.s.Session() != nil || st.Breaker.State == breaker.Closed {
			bad("parked with lists, a session or a closed breaker")
		}
		if st.Parked.person() != st.NextAttempt.IsZero() || next > 330*time.Second {
			bad("parked as %v with a timer of %s", st.Parked, next)
		}
	case Connecting, Reconnecting:
		if open == 0 && (st.NextAttempt.IsZero() || next <= 0 || next > time.Minute) {
			bad("nothing is under way")
		}
	default:
		bad("unexpected state")
	}
}

func reachable(from State) (to []State) {
	for _, s := range machine[from] {
		to = append(to, s)
	}
	return to
}

// recovers heals the world and demands that the server come back.
func (m *sim) recovers(how string, within time.Duration, calls bool) {
	m.set(func(w *world) {
		w.dial, w.list, w.healthy, w.closing = nil, nil, nil, 0
		w.call = func(_ context.Context, _ *fake, req session.Request) (session.Reply, error) {
			m.act(req)
			return session.Reply{Result: json.RawMessage(`{}`)}, nil
		}
	})
	m.after(0)
	if st := m.s.Status(); st.State == Parked && st.Parked.person() {
		m.s.Reconnect("a person who has mended it")
	}
	m.note("healed; it must recover %s within %s", how, within)
	for until := time.Now().Add(within); time.Now().Before(until); {
		m.after(time.Second)
		if calls {
			m.wg.Go(func() { _, _ = m.try(CallOptions{}) })
		}
		st := m.s.Status()
		if st.State == Parked && st.Parked.person() { // an attempt begun before the healing came to this
			m.s.Reconnect("a person who has mended it")
		}
		if st.State == Ready && st.Session != nil && !calls {
			break
		}
	}
	m.check()
	if st := m.s.Status(); st.State != Ready {
		m.t.Errorf("not ready: %+v", st)
	}
	_, err := m.try(CallOptions{})
	// The breaker may be open from calls before the healing, of which one may
	// still hang as the probe; nobody has called since.
	for wait := simTimeout + breaker.DefaultCooldown; wait > 0 && !calls; wait -= 5 * time.Second {
		if _, open := as[*OpenError](err); !open {
			break
		}
		m.after(5 * time.Second)
		_, err = m.try(CallOptions{})
	}
	if err != nil {
		m.t.Errorf("not answered: %v", err)
	}
	m.check()
}
