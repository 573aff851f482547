package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-host/hermes-host/host/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is a server, its transport and its lists, scripted by a test. The
// zero world is healthy. Its functions may be changed while it runs, through
// set.
type world struct {
	mu      sync.Mutex
	dial    func(ctx context.Context, n int) error // the nth Connect; nil: works
	call    func(ctx context.Context, f *fake, req session.Request) (session.Reply, error)
	list    func(ctx context.Context, f *fake, which Lists) error
	healthy func(ctx context.Context, f *fake) error
	closing time.Duration // what a Close takes

	dials    []time.Duration // when, since the start
	start    time.Time
	open     int // dials and sessions that exist
	overlaps int // more than one of them
	sessions []*fake
	lists    []Lists
	listed   bool // the lists are in the catalog
	withdraw int
	checks   int
	heard    []string // what the handler was told
}

func (w *world) set(f func(*world)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w)
}

// get reads something of the world.
func get[T any](w *world, f func(*world) T) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return f(w)
}

func (w *world) Connect(ctx context.Context, h session.Handler) (session.Session, error) {
	w.mu.Lock()
	w.dials = append(w.dials, time.Since(w.start))
	n, dial := len(w.dials), w.dial
	if w.open++; w.open > 1 {
		w.overlaps++
	}
	w.mu.Unlock()
	if dial != nil {
		if err := dial(ctx, n); err != nil {
			w.set(func(w *world) { w.open-- })
			return nil, err
		}
	}
	f := &fake{w: w, n: n, handler: h, done: make(chan struct{})}
	w.set(func(w *world) { w.sessions = append(w.sessions, f) })
	return f, nil
}

// latest returns the latest session.
func (w *world) latest() *fake {
	return get(w, func(w *world) *fake { return w.sessions[len(w.sessions)-1] })
}

func (w *world) List(ctx context.Context, s session.Session, which Lists) error {
	list := get(w, func(w *world) func(context.Context, *fake, Lists) error {
		w.lists = append(w.lists, which)
		return w.list
	})
	if list != nil {
		if err := list(ctx, s.(*fake), which); err != nil {
			return err
		}
	}
	w.set(func(w *world) { w.listed = true })
	return nil
}

func (w *world) Withdraw() { w.set(func(w *world) { w.listed = false; w.withdraw++ }) }

func (w *world) Notification(n session.Notification) {
	w.set(func(w *world) { w.heard = append(w.heard, n.Method) })
}
func (w *world) Request(r session.ServerRequest) {
	w.set(func(w *world) { w.heard = append(w.heard, r.Method) })
}
func (w *world) Log(l session.LogLine) {
	w.set(func(w *world) { w.heard = append(w.heard, l.Text) })
}

// A fake is one session of a world.
type fake struct {
	w       *world
	n       int
	handler session.Handler
	once    sync.Once
	closed  sync.Once
	done    chan struct{}
	ending  atomic.Pointer[session.End]
	calls   atomic.Int64
	died    atomic.Int64 // when, in ns since the world's start; 0: it lives
	late    atomic.Int64 // calls later than the instant of the end
}

func (f *fake) Info() session.Info {
	return session.Info{ProtocolVersion: "2025-11-25", ServerInfo: json.RawMessage(`{"name":"fake"}`)}
}

func (f *fake) Call(ctx context.Context, req session.Request) (session.Reply, error) {
	select {
	case <-f.done:
		if f.deadSince() > 0 {
			f.late.Add(1)
		}
		return session.Reply{}, session.Failuref(true, "written to a dead session")
	default:
	}
	f.calls.Add(1)
	if call := get(f.w, func(w *world) func(context.Context, *fake, session.Request) (session.Reply, error) { return w.call }); call != nil {
		return call(ctx, f, req)
	}
	return session.Reply{Result: json.RawMessage(fmt.Sprintf(`{"session":%d}`, f.n))}, nil
}

func (f *fake) Notify(string, json.RawMessage) error        { return nil }
func (f *fake) Answer(json.RawMessage, session.Reply) error { return nil }

func (f *fake) Healthy(ctx context.Context) error {
	healthy := get(f.w, func(w *world) func(context.Context, *fake) error { w.checks++; return w.healthy })
	if healthy != nil {
		return healthy(ctx, f)
	}
	return nil
}

func (f *fake) Done() <-chan struct{} { return f.done }
func (f *fake) End() *session.End     { return f.ending.Load() }

// deadSince returns how long ago the session ended, 0 if it lives or ended in
// this very instant.
func (f *fake) deadSince() time.Duration {
	if died := f.died.Load(); died > 0 {
		return time.Since(f.w.start) - time.Duration(died)
	}
	return 0
}

// die ends the session by itself.
func (f *fake) die(end *session.End) {
	f.once.Do(func() {
		f.died.Store(max(1, int64(time.Since(f.w.start))))
		f.ending.Store(end)
		close(f.done)
	})
}

func (f *fake) Close(ctx context.Context) {
	f.closed.Do(func() {
		select {
		case <-time.After(get(f.w, func(w *world) time.Duration { return w.closing })):
		case <-ctx.Done():
		}
		f.die(&session.End{Class: session.Closed, Message: "closed"})
		f.w.set(func(w *world) { w.open-- })
	})
}

// A rig is a world and the supervisor that looks after it, within a synctest
// bubble.
type rig struct {
	*world
	t      testing.TB
	s      *Supervisor
	moves  []Transition // OnTransition's; read after synctest.Wait
	stop   context.CancelFunc
	ended  chan struct{}
	finish func()
}

// run starts a supervisor over w. Jitter is the least there is: waits of the
// back-off are three quarters of their nominal value. The test ends with a shutdown.
func run(t testing.TB, w *world, change func(*Config)) *rig {
	w.start = time.Now()
	r := &rig{world: w, t: t, ended: make(chan struct{})}
	cfg := Config{
		Name: "x", Transport: w, Handler: w, Lister: w, Jitter: func() float64 { return 0 },
		OnTransition: func(tr Transition) { w.set(func(*world) { r.moves = append(r.moves, tr) }) },
	}
	if change != nil {
		change(&cfg)
	}
	r.s = New(cfg)
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() {
		defer close(r.ended)
		if err := r.s.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	r.finish = func() {
		stop()
		<-r.ended
		if n := get(w, func(w *world) int { return w.open }); n != 0 {
			t.Errorf("%d sessions are open after Run", n)
		}
		if w.overlaps > 0 {
			t.Errorf("%d dials while another dial or session existed", w.overlaps)
		}
		if w.listed {
			t.Error("the entries are still in the catalog after Run")
		}
		if r.s.Status().State != Stopped {
			t.Errorf("after Run the state is %s", r.s.Status().State)
		}
	}
	synctest.Wait()
	return r
}

// scene runs a test in a bubble over a world.
func scene(t *testing.T, w *world, change func(*Config), play func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, w, change)
		defer r.finish()
		play(r)
	})
}

// after lets time pass, and all that follows from it.
func (r *rig) after(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
	synctest.Wait()
}

func (r *rig) state(want State) {
	r.t.Helper()
	if st := r.s.Status(); st.State != want {
		r.t.Fatalf("state is %s (%s), want %s", st.State, st.Reason, want)
	}
}

func (r *rig) dialed(want int) {
	r.t.Helper()
	if got := get(r.world, func(w *world) int { return len(w.dials) }); got != want {
		r.t.Fatalf("%d dials, want %d", got, want)
	}
}

// wakeful returns the states gone through since the start.
func (r *rig) path() (states []State) {
	for _, m := range r.moves {
		states = append(states, m.To)
	}
	return states
}

func (r *rig) went(want ...State) {
	r.t.Helper()
	if got := r.path(); !slices.Equal(got, want) {
		r.t.Fatalf("went through %v, want %v", got, want)
	}
}

var request = session.Request{Method: "tools/call", Params: json.RawMessage(`{}`)}

func (r *rig) try(opt CallOptions) (string, error) {
	reply, err := r.s.Call(context.Background(), request, opt)
	return string(reply.Result), err
}

// ok makes a call that must be answered by the nth session.
func (r *rig) ok(n int) {
	r.t.Helper()
	got, err := r.try(CallOptions{})
	if want := fmt.Sprintf(`{"session":%d}`, n); err != nil || got != want {
		r.t.Fatalf("call: %s, %v; want %s", got, err, want)
	}
}

// want is the error type that err must have.
func want[E error](t testing.TB, err error) (e E) {
	t.Helper()
	e, ok := as[E](err)
	if !ok {
		t.Fatalf("error is %T (%v), want %T", err, err, e)
	}
	if e.Error() == "" {
		t.Fatal("the error says nothing")
	}
	return e
}

func gone(msg string) *session.End {
	return &session.End{Class: session.Gone, Message: msg, Retryable: true}
}

func refuse(msg string) func(context.Context, int) error {
	return func(context.Context, int) error { return gone(msg) }
}
func as[E error](err error) (E, bool) { return errors.AsType[E](err) }
