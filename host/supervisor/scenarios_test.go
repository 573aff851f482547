package supervisor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/breaker"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

func hang(ctx context.Context, _ *fake, _ session.Request) (session.Reply, error) {
	<-ctx.Done()
	return session.Reply{}, context.Cause(ctx)
}

func answer(r session.Reply, err error) func(context.Context, *fake, session.Request) (session.Reply, error) {
	return func(context.Context, *fake, session.Request) (session.Reply, error) { return r, err }
}

// TestChildThatDiesUnderCalls: three calls kill the server, which then stays
// away. Calls get a clean "reconnecting" error; after the cooldown the next
// call causes a relaunch, and the first call after recovery passes.
func TestChildThatDiesUnderCalls(t *testing.T) {
	crash := func(_ context.Context, f *fake, _ session.Request) (session.Reply, error) {
		f.die(gone("exit status 3"))
		return session.Reply{}, session.Failuref(false, "EOF")
	}
	scene(t, &world{call: crash}, func(c *Config) { c.Revive.Min = time.Hour }, func(r *rig) {
		for range 3 {
			_, err := r.try(CallOptions{})
			if e := want[*OutcomeUnknownError](t, err); !strings.Contains(e.Error(), `"x"`) {
				t.Fatal(e)
			}
			r.after(time.Second)
		}
		r.set(func(w *world) { w.dial = refuse("cannot start") })
		_, _ = r.try(CallOptions{})
		r.after(2 * time.Minute)
		r.state(Parked)
		n := len(r.dials)
		_, err := r.try(CallOptions{})
		if e := want[*ReconnectingError](t, err); !strings.Contains(e.Error(), "cannot start") {
			t.Fatal(e)
		}
		r.dialed(n + 1)
		_, err = r.try(CallOptions{})
		if e := want[*OpenError](t, err); e.RetryIn != time.Minute || !strings.Contains(e.Error(), "cannot start") {
			t.Fatalf("%+v: %s", e, e)
		}
		r.after(time.Minute)
		r.set(func(w *world) { w.dial, w.call = nil, nil })
		if _, err := r.try(CallOptions{}); err != nil {
			t.Fatal(err)
		}
		r.after(0)
		r.state(Ready)
		if b := r.s.Status().Breaker; b.State != breaker.Closed {
			t.Fatalf("breaker %+v", b)
		}
		for _, f := range r.sessions {
			if n := f.late.Load(); n > 0 {
				t.Fatalf("%d writes into a dead transport", n)
			}
		}
	})
}

// TestServerThatComesLater: a server that starts after the host, and one that
// is away for a while, are ready when they are there, with nobody's help.
func TestServerThatComesLater(t *testing.T) {
	for _, c := range []struct{ away, within time.Duration }{
		{500 * time.Millisecond, 2 * time.Second}, {10 * time.Second, 10 * time.Second},
		{90 * time.Second, 3 * time.Minute}, {5 * time.Minute, 5 * time.Minute}, {8 * time.Hour, 5 * time.Minute},
	} {
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s first=%v", c.away, first), func(t *testing.T) {
				w := &world{}
				if first {
					w.dial = refuse("refused")
				}
				scene(t, w, nil, func(r *rig) {
					if !first {
						r.set(func(w *world) { w.dial = refuse("refused") })
						r.latest().die(gone("killed"))
					}
					r.after(c.away)
					r.set(func(w *world) { w.dial = nil })
					r.after(c.within + c.within/10)
					r.state(Ready)
				})
			})
		}
	}
}

// TestBlipIsInvisible: a server killed between calls, and back within the
// call's wait, costs the next caller time and no error.
func TestBlipIsInvisible(t *testing.T) {
	scene(t, &world{}, nil, func(r *rig) {
		r.ok(1)
		r.set(func(w *world) {
			w.dial = func(context.Context, int) error { <-time.After(1900 * time.Millisecond); return nil }
		})
		r.latest().die(gone("killed"))
		r.ok(2)
	})
}

// TestDeathWithManyCallsInFlight: the death of a server fails the calls that
// it takes along at once, and does not open the breaker against those that
// come next.
func TestDeathWithManyCallsInFlight(t *testing.T) {
	scene(t, &world{call: hang}, nil, func(r *rig) {
		errs := make([]error, 10)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { _, errs[i] = r.try(CallOptions{}) })
		}
		r.after(time.Second)
		r.set(func(w *world) { w.call = nil })
		at := time.Now()
		r.latest().die(gone("killed"))
		wg.Wait()
		if d := time.Since(at); d > 0 {
			t.Fatalf("the calls failed after %s", d)
		}
		for _, err := range errs {
			if e := want[*OutcomeUnknownError](t, err); !strings.Contains(e.Error(), "killed") {
				t.Fatal(e)
			}
		}
		r.ok(2)
	})
}

// TestServerErrorForEver: a server that answers 500 to every attempt parks, and
// the reason names the 500.
func TestServerErrorForEver(t *testing.T) {
	scene(t, &world{dial: refuse("HTTP 500 Internal Server Error")}, nil, func(r *rig) {
		r.after(time.Minute)
		r.state(Parked)
		if st := r.s.Status(); !strings.Contains(st.Reason, "500") || st.NextAttempt.IsZero() {
			t.Fatalf("%+v", st)
		}
	})
}

// TestSpawnsOfTheImpossible: a command that does not exist is tried once in
// all, or a bounded number of times if the failure looks temporary.
func TestSpawnsOfTheImpossible(t *testing.T) {
	scene(t, &world{dial: refuse("exit status 127")}, nil, func(r *rig) {
		r.after(24 * time.Hour)
		if n := len(r.dials); n > 5+24*12+4 {
			t.Fatalf("%d spawns in a day", n)
		}
	})
}

// TestQuietLogs: a server that is down for a week says so once. Each change of
// state, and each new reason, is one line; reasons that take turns are not new.
// What is told to others says so, too.
func TestQuietLogs(t *testing.T) {
	var out strings.Builder
	var news []string
	tell := func(tr Transition) {
		if !tr.Repeated {
			news = append(news, fmt.Sprintf("%s %s: %s", tr.From, tr.To, tr.Reason))
		}
	}
	lines := func() (n int) { n = strings.Count(out.String(), "\n"); out.Reset(); return n }
	scene(t, &world{dial: refuse("refused")}, func(c *Config) {
		c.Logger = hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Info})
		c.OnTransition, c.OnAttempt = tell, tell
	}, func(r *rig) {
		r.after(7 * 24 * time.Hour)
		if text := out.String(); !strings.Contains(text, "server=x") || !strings.Contains(text, "refused") || !strings.Contains(text, "state=parked") {
			t.Fatal(text)
		}
		if n := lines(); n != 2 { // the first failed attempt, and the park
			t.Fatalf("%d lines, want 2", n)
		}
		r.s.Reconnect("an operator") // who wants to know
		r.after(time.Hour)
		if n := lines(); n != 2 {
			t.Fatalf("%d lines after an order, want 2", n)
		}
		r.set(func(w *world) { w.dial = refuse("certificate expired") })
		r.after(24 * time.Hour)
		if n := lines(); n != 1 {
			t.Fatalf("%d lines for a new reason, want 1", n)
		}
		r.set(func(w *world) {
			w.dial = func(_ context.Context, n int) error { return gone([]string{"refused", "certificate expired"}[n%2]) }
		})
		r.after(7 * 24 * time.Hour)
		if n := lines(); n != 0 {
			t.Fatalf("%d lines for reasons that take turns, want 0", n)
		}
		r.set(func(w *world) { w.dial = nil })
		r.after(time.Hour)
		if n := lines(); n != 1 {
			t.Fatalf("%d lines for the recovery, want 1", n)
		}
		if want := []string{
			"connecting connecting: refused", "connecting parked: refused",
			"parked reconnecting: reconnect requested by an operator", "reconnecting reconnecting: refused", "reconnecting parked: refused",
			"reconnecting parked: certificate expired", "reconnecting ready: " + r.s.Status().Reason,
		}; !slices.Equal(news, want) {
			t.Errorf("told %q, want %q", news, want)
		}
	})
}

// TestAnswersAreNoStrikes: isError results and JSON-RPC errors prove that the
// server works, however many there are.
func TestAnswersAreNoStrikes(t *testing.T) {
	for _, reply := range []session.Reply{
		{Result: []byte(`{"isError":true}`)}, {Error: jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "bad")}, {Error: jsonrpc.Errorf(-32003, "closed")},
	} {
		scene(t, &world{call: answer(reply, nil)}, nil, func(r *rig) {
			for range 20 {
				if _, err := r.try(CallOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if b := r.s.Status().Breaker; b.State != breaker.Closed || b.Failures != 0 {
				t.Fatalf("%+v", b)
			}
		})
	}
}

// TestManyDropAtOnce: the connections of many servers drop in one instant and
// stay away for a moment. The attempts are spread, bounded in number at a time, and
// all servers are ready again.
func TestManyDropAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		gate := NewGate(3)
		back := time.Now().Add(13 * time.Second)
		dial := func(context.Context, int) error {
			for n := now.Add(1); ; {
				if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
					break
				}
			}
			defer now.Add(-1)
			<-time.After(200 * time.Millisecond)
			if d := time.Since(back); d > -3*time.Second && d < 0 {
				return gone("network is down")
			}
			return nil
		}
		var rigs []*rig
		for range 8 {
			rigs = append(rigs, run(t, &world{dial: dial}, func(c *Config) { c.Gate, c.Jitter = gate, nil }))
		}
		rigs[0].after(10 * time.Second)
		for _, r := range rigs {
			r.ok(1)
			r.latest().die(gone("network is down"))
		}
		rigs[0].after(20 * time.Second)
		times := map[time.Duration]int{}
		for _, r := range rigs {
			r.state(Ready)
			times[r.dials[len(r.dials)-1]]++
			r.finish()
		}
		if most.Load() > 3 || len(times) < 4 {
			t.Fatalf("%d dials at once; last dials at %v", most.Load(), times)
		}
	})
}

// TestTimeoutIsOneCallsAffair: a call that runs into its limit fails alone.
// The server keeps its session and its entries, and is told to cancel.
func TestTimeoutIsOneCallsAffair(t *testing.T) {
	var told error
	w := &world{call: func(ctx context.Context, _ *fake, _ session.Request) (session.Reply, error) {
		<-ctx.Done()
		told = context.Cause(ctx)
		return session.Reply{}, told
	}}
	scene(t, w, nil, func(r *rig) {
		at := time.Now()
		_, err := r.try(CallOptions{Idempotent: true})
		if e := want[*TimeoutError](t, err); e.After != 5*time.Minute || time.Since(at) != 5*time.Minute || told == nil {
			t.Fatalf("%+v after %s, told %v", e, time.Since(at), told)
		}
		_, err = r.try(CallOptions{Timeout: time.Second})
		want[*TimeoutError](t, err)
		if st := r.s.Status(); st.State != Ready || !r.listed || st.Breaker.Failures != 2 {
			t.Fatalf("%+v", st)
		}
		r.set(func(w *world) { w.call = nil })
		r.ok(1)
	})
}

// TestListsThatStall: a server whose first list stalls is not ready; the
// attempt fails and is repeated, within the budget.
func TestListsThatStall(t *testing.T) {
	w := &world{list: func(ctx context.Context, f *fake, _ Lists) error {
		if f.n < 3 {
			<-ctx.Done()
			return fmt.Errorf("listing tools: %w", context.Cause(ctx))
		}
		return nil
	}}
	scene(t, w, nil, func(r *rig) {
		r.after(59 * time.Second)
		r.state(Connecting)
		if st := r.s.Status(); !strings.Contains(st.LastError, "30s") {
			t.Fatal(st.LastError)
		}
		r.after(5 * time.Second)
		r.state(Ready)
		r.dialed(3)
		r.went(Ready)
	})
	w = &world{list: func(context.Context, *fake, Lists) error { return errors.New("tools/list: internal error") }}
	scene(t, w, nil, func(r *rig) {
		r.after(time.Minute)
		r.state(Parked)
		r.dialed(5)
		if st := r.s.Status(); !strings.Contains(st.Reason, "internal error") || r.listed {
			t.Fatalf("%+v", st)
		}
	})
}

// TestProbeWhoseCallerLeaves: the half-open probe's caller goes away. The next
// call is the probe, at once.
func TestProbeWhoseCallerLeaves(t *testing.T) {
	w := &world{call: answer(session.Reply{}, &session.Failure{Reason: session.HTTPStatus, Message: "503"})}
	scene(t, w, nil, func(r *rig) {
		for range 3 {
			_, _ = r.try(CallOptions{})
		}
		_, err := r.try(CallOptions{})
		if e := want[*OpenError](t, err); !strings.Contains(e.Error(), "503") {
			t.Fatalf("%s does not tell the latest failure", e)
		}
		r.after(time.Minute)
		r.set(func(w *world) { w.call = hang })
		ctx, leave := context.WithCancelCause(context.Background())
		left := errors.New("the user pressed escape")
		done := make(chan error)
		go func() { _, err := r.s.Call(ctx, request, CallOptions{}); done <- err }()
		r.after(time.Second)
		_, err = r.try(CallOptions{})
		want[*OpenError](t, err)
		leave(left)
		if err := <-done; err != left {
			t.Fatal(err)
		}
		r.set(func(w *world) { w.call = nil })
		r.ok(1)
		if b := r.s.Status().Breaker; b.State != breaker.Closed {
			t.Fatalf("%+v", b)
		}
	})
}

// TestProbeWhoseCallerLeavesWhileItWaits: the same where the probe waits for
// the session that it has asked for.
func TestProbeWhoseCallerLeavesWhileItWaits(t *testing.T) {
	scene(t, &world{dial: refuse("down")}, func(c *Config) { c.Revive.Min = time.Hour }, func(r *rig) {
		r.after(2 * time.Minute)
		r.state(Parked)
		r.set(func(w *world) {
			w.dial = func(ctx context.Context, _ int) error { <-ctx.Done(); return context.Cause(ctx) }
		})
		ctx, leave := context.WithTimeout(context.Background(), time.Second)
		defer leave()
		if _, err := r.s.Call(ctx, request, CallOptions{}); err != context.DeadlineExceeded {
			t.Fatal(err)
		}
		_, err := r.try(CallOptions{})
		want[*ReconnectingError](t, err) // the probe, which waits like the first
	})
}

// TestWedgedSession: a session that is alive and answers nothing opens the
// breaker, is checked, found silent and replaced, which closes the breaker; one
// that proves healthy stays.
func TestWedgedSession(t *testing.T) {
	for _, silent := range []bool{true, false} {
		w := &world{
			call: func(ctx context.Context, f *fake, r session.Request) (session.Reply, error) {
				if f.n == 1 {
					return hang(ctx, f, r)
				}
				return session.Reply{Result: []byte(`{"session":2}`)}, nil
			},
			healthy: func(ctx context.Context, _ *fake) error {
				if silent {
					<-ctx.Done()
				}
				return ctx.Err()
			},
		}
		scene(t, w, nil, func(r *rig) {
			for range 3 {
				_, err := r.try(CallOptions{Timeout: time.Second})
				want[*TimeoutError](t, err)
			}
			r.after(6 * time.Second)
			if w.checks != 1 {
				t.Fatalf("%d checks", w.checks)
			}
			r.state(Ready)
			if !silent {
				r.dialed(1)
				return
			}
			r.ok(2)
			if !strings.Contains(r.moves[1].Reason, "no sign of life") {
				t.Fatal(r.moves[1].Reason)
			}
		})
	}
}

// TestFailingSession: three answers that are none but come at once open the
// breaker, too. Nothing else has such a session checked, and replaced when it
// is of no use.
func TestFailingSession(t *testing.T) {
	w := &world{
		call: func(_ context.Context, f *fake, _ session.Request) (session.Reply, error) {
			if f.n == 1 {
				return session.Reply{}, &session.Failure{Reason: session.HTTPStatus, Message: "500"}
			}
			return session.Reply{Result: []byte(`{"session":2}`)}, nil
		},
		healthy: func(_ context.Context, f *fake) error {
			if f.n == 1 {
				return errors.New("500")
			}
			return nil
		},
	}
	scene(t, w, nil, func(r *rig) {
		for n := range 3 {
			if _, err := r.try(CallOptions{}); err == nil {
				t.Fatal("a failure was no error")
			}
			if n < 2 {
				r.after(time.Minute)
				r.dialed(1)
			}
		}
		r.after(0)
		r.dialed(2)
		r.circuit(breaker.Closed)
		r.ok(2)
	})
}

// TestKeepAlive: an idle session is checked and replaced when it is silent, so
// that the next call meets a good one. One with a call in flight is not.
func TestKeepAlive(t *testing.T) {
	silent := func(ctx context.Context, f *fake) error {
		if f.n > 1 {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	keep := func(c *Config) { c.KeepAlive = 30 * time.Second }
	scene(t, &world{healthy: silent}, keep, func(r *rig) {
		r.after(36 * time.Second)
		r.ok(2)
		r.after(10 * time.Minute)
		r.dialed(2)
	})
	t.Run("call in flight", func(t *testing.T) {
		// The checks fall due every 30 s. The second call begins a second
		// after the check that finds no call in flight.
		w := &world{healthy: silent, call: func(context.Context, *fake, session.Request) (session.Reply, error) {
			<-time.After(250 * time.Second)
			return session.Reply{Result: []byte(`{"session":1}`)}, nil
		}}
		scene(t, w, keep, func(r *rig) {
			r.ok(1)
			r.after(21 * time.Second)
			if w.checks != 1 {
				t.Fatalf("%d checks", w.checks)
			}
			r.ok(1)
			r.dialed(1)
		})
	})
	t.Run("off", func(t *testing.T) {
		scene(t, &world{healthy: silent}, nil, func(r *rig) {
			r.after(24 * time.Hour)
			if r.checks != 0 {
				t.Fatalf("%d checks", r.checks)
			}
		})
	})
}

// TestOldSessionsAreLetGo: nothing holds a session that has ended, with the
// buffers of its connection, until the next one fails a call, too.
func TestOldSessionsAreLetGo(t *testing.T) {
	w := &world{call: func(context.Context, *fake, session.Request) (session.Reply, error) {
		return session.Reply{}, session.Failuref(true, "failed")
	}}
	scene(t, w, nil, func(r *rig) {
		if _, err := r.try(CallOptions{}); err == nil {
			t.Fatal("the call was answered")
		}
		first := weak.Make(r.latest())
		first.Value().die(gone("the end"))
		r.after(time.Minute)
		r.state(Ready)
		r.dialed(2)
		r.set(func(w *world) { w.sessions, w.call = nil, nil })
		runtime.GC()
		runtime.GC()
		if first.Value() != nil {
			t.Error("the first session is still held")
		}
		r.ok(2)
	})
}

// TestWriteIsNeverRepeated: a write in flight at the server's death was carried
// out once at most, and the caller hears that the outcome is unknown.
func TestWriteIsNeverRepeated(t *testing.T) {
	var writes atomic.Int32
	w := &world{call: func(ctx context.Context, f *fake, r session.Request) (session.Reply, error) {
		writes.Add(1)
		return hang(ctx, f, r)
	}}
	scene(t, w, nil, func(r *rig) {
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { _, err = r.try(CallOptions{}) })
		r.after(time.Second)
		r.latest().die(gone("killed"))
		wg.Wait()
		if e := want[*OutcomeUnknownError](t, err); writes.Load() != 1 || !strings.Contains(e.Error(), "unknown") {
			t.Fatalf("%d writes, %v", writes.Load(), err)
		}
	})
}

// TestRefresh: a burst of changes costs two fetches at most, none in the
// goroutine of the notice; a failed fetch is repeated with back-off and leaves
// the session alone; changes during the first listing are not lost.
func TestRefresh(t *testing.T) {
	notice := func(r *rig) {
		r.latest().handler.Notification(session.Notification{Method: "notifications/tools/list_changed"})
	}
	t.Run("burst", func(t *testing.T) {
		scene(t, &world{}, nil, func(r *rig) {
			r.after(time.Minute)
			for range 200 {
				notice(r)
				r.after(4 * time.Millisecond)
			}
			r.after(time.Minute)
			if got := r.lists[1:]; len(got) == 0 || len(got) > 2 || got[0] != Tools {
				t.Fatalf("fetched %v", got)
			}
		})
	})
	t.Run("each list", func(t *testing.T) {
		for method, want := range map[string]Lists{"tools": Tools, "prompts": Prompts, "resources": Resources} {
			scene(t, &world{}, nil, func(r *rig) {
				r.after(time.Minute)
				r.latest().handler.Notification(session.Notification{Method: "notifications/" + method + "/list_changed"})
				r.after(time.Minute)
				if got := r.lists[1:]; !slices.Equal(got, []Lists{want}) {
					t.Errorf("%s: fetched %v", method, got)
				}
			})
		}
	})
	t.Run("gathered", func(t *testing.T) {
		scene(t, &world{}, nil, func(r *rig) {
			r.after(time.Minute)
			notice(r)
			r.s.Refresh(Prompts)
			r.after(time.Minute)
			if got := r.lists[1:]; !slices.Equal(got, []Lists{Tools | Prompts}) {
				t.Fatalf("fetched %v", got)
			}
		})
	})
	t.Run("failed", func(t *testing.T) {
		scene(t, &world{}, nil, func(r *rig) {
			r.after(time.Minute)
			r.set(func(w *world) {
				w.list = func(context.Context, *fake, Lists) error { return session.Failuref(false, "timeout") }
			})
			notice(r)
			r.after(time.Minute)
			r.state(Ready)
			if n := len(r.lists) - 1; n < 5 || n > 7 {
				t.Fatalf("%d fetches in a minute", n)
			}
			r.set(func(w *world) { w.list = nil; w.lists = nil })
			r.after(2 * time.Minute)
			if !slices.Equal(r.lists, []Lists{Tools}) {
				t.Fatalf("fetched %v", r.lists)
			}
			r.dialed(1)
		})
	})
	t.Run("during the first listing", func(t *testing.T) {
		w := &world{list: func(context.Context, *fake, Lists) error { <-time.After(time.Second); return nil }}
		scene(t, w, nil, func(r *rig) {
			notice(r)
			r.after(time.Minute)
			if !slices.Equal(r.lists, []Lists{AllLists, Tools}) {
				t.Fatalf("fetched %v", r.lists)
			}
		})
	})
}

// TestEventsBeforeTheSession: what a server sends right after the handshake
// reaches the handler in order, once the session can be found.
func TestEventsBeforeTheSession(t *testing.T) {
	var s atomic.Pointer[Supervisor]
	h := &early{}
	scene(t, &world{dial: func(context.Context, int) error { <-time.After(time.Second); return nil }}, func(c *Config) {
		c.Transport = eager{c.Transport}
		c.Handler = h
		h.found = func() bool { return s.Load().Session() != nil }
	}, func(r *rig) {
		s.Store(r.s)
		r.after(2 * time.Second)
		r.latest().handler.Notification(session.Notification{Method: "later"})
		if want := []string{"roots/list true", "first true", "later true"}; !slices.Equal(h.heard, want) {
			t.Fatalf("heard %v, want %v", h.heard, want)
		}
	})
}

// eager's sessions send before Connect has returned.
type eager struct{ session.Transport }

func (e eager) Connect(ctx context.Context, h session.Handler) (session.Session, error) {
	s, err := e.Transport.Connect(ctx, h)
	h.Request(session.ServerRequest{Method: "roots/list"})
	h.Notification(session.Notification{Method: "first"})
	return s, err
}

// early notes whether the session can be found when something is heard.
type early struct {
	deaf
	found func() bool
	heard []string
}

func (e *early) note(m string)                       { e.heard = append(e.heard, fmt.Sprint(m, " ", e.found())) }
func (e *early) Notification(n session.Notification) { e.note(n.Method) }
func (e *early) Request(r session.ServerRequest)     { e.note(r.Method) }

// TestAuthorization: a call that is refused for want of authorization says so,
// is no strike, and shows in the status; when the authorization is completed
// the session is replaced. One completed while an attempt is under way is not
// missed.
func TestAuthorization(t *testing.T) {
	w := &world{call: answer(session.Reply{}, &session.Failure{Reason: session.NeedsAuth, Message: "401"})}
	scene(t, w, nil, func(r *rig) {
		for range 5 {
			_, err := r.try(CallOptions{})
			want[*AuthNeededError](t, err)
		}
		if st := r.s.Status(); !st.NeedsAuthorization || st.State != Ready || st.Breaker.Failures != 0 {
			t.Fatalf("%+v", st)
		}
		r.set(func(w *world) { w.call = nil })
		r.s.Authorized()
		r.after(0)
		r.ok(2)
		if r.s.Status().NeedsAuthorization {
			t.Fatal("still needs authorization")
		}
		r.s.Authorized() // there is no need: nothing happens
		r.after(time.Minute)
		r.dialed(2)
	})
	scene(t, &world{dial: func(_ context.Context, n int) error {
		<-time.After(time.Second)
		if n == 1 {
			return &session.End{Class: session.Auth, Message: "401"}
		}
		return nil
	}}, nil, func(r *rig) {
		r.s.Authorized()
		r.after(2 * time.Second)
		r.state(Ready)
		r.went(Ready)
	})
}

// TestOperatorsPark: a server parked by an operator stays so, whatever calls or
// timers say, until the operator's reconnect.
func TestOperatorsPark(t *testing.T) {
	slow := func(context.Context, int) error { <-time.After(time.Second); return nil }
	for name, before := range map[string]func(r *rig){
		"ready":      func(r *rig) { r.after(2 * time.Second); r.state(Ready) },
		"connecting": func(*rig) {},
		"parked": func(r *rig) {
			r.after(2 * time.Second)
			r.set(func(w *world) { w.dial = refuse("down") })
			r.latest().die(gone("killed"))
			r.after(time.Minute)
			r.state(Parked)
		},
	} {
		t.Run(name, func(t *testing.T) {
			scene(t, &world{dial: slow}, nil, func(r *rig) {
				before(r)
				r.s.Park("maintenance")
				r.after(2 * time.Second)
				n := len(r.dials)
				for range 50 {
					r.state(Parked)
					_, err := r.try(CallOptions{})
					if e := want[*UnavailableError](t, err); !strings.Contains(e.Error(), "maintenance") || e.Parked != ByOperator {
						t.Fatal(e)
					}
					r.s.Authorized()
					r.after(time.Minute)
				}
				r.dialed(n)
				if get(r.world, func(w *world) bool { return w.listed }) {
					t.Fatal("its entries are listed")
				}
				r.set(func(w *world) { w.dial = nil })
				r.s.Reconnect("alice")
				r.after(0)
				r.state(Ready)
			})
		})
	}
}

// TestCallAfterOperatorsReconnect: a call that comes while an operator's
// reconnect is under way waits for the session, although the park before had
// opened the breaker.
func TestCallAfterOperatorsReconnect(t *testing.T) {
	slow := func(context.Context, int) error { <-time.After(time.Second); return nil }
	scene(t, &world{dial: slow}, nil, func(r *rig) {
		r.after(2 * time.Second)
		r.s.Park("maintenance")
		r.after(time.Second)
		r.s.Reconnect("alice")
		r.after(100 * time.Millisecond)
		r.state(Reconnecting)
		r.ok(2)
	})
}

// TestParkAndReconnectDuringAnAttempt: orders in quick succession, while an
// attempt is under way, end in what the last one asked for, without two
// attempts at a time. The rig counts.
func TestParkAndReconnectDuringAnAttempt(t *testing.T) {
	slow := func(context.Context, int) error { <-time.After(time.Second); return nil }
	scene(t, &world{dial: slow}, nil, func(r *rig) {
		r.s.Park("a")
		r.s.Reconnect("b")
		r.after(0)
		r.s.Park("c")
		r.after(0)
		r.s.Reconnect("d")
		r.after(3 * time.Second)
		r.state(Ready)
		r.dialed(2)
		for range 100 {
			r.s.Reconnect("storm")
		}
		r.after(3 * time.Second)
		r.state(Ready)
		r.dialed(3)
		r.s.Reconnect("e")
		r.s.Park("f")
		r.after(3 * time.Second)
		r.state(Parked)
	})
}

// TestParkDuringAList: a server that parks while its lists are being fetched
// offers nothing in the end, even if they are published after all.
func TestParkDuringAList(t *testing.T) {
	w := &world{list: func(ctx context.Context, _ *fake, _ Lists) error { <-ctx.Done(); return nil }}
	scene(t, w, nil, func(r *rig) {
		r.s.Park("for maintenance")
		r.after(0)
		r.state(Parked)
		if get(r.world, func(w *world) bool { return w.listed }) {
			t.Fatal("the entries of a parked server are in the catalog")
		}
	})
}

// TestHangingConnect: an attempt that hangs is given up after its limit, and
// says so.
func TestHangingConnect(t *testing.T) {
	scene(t, &world{dial: func(ctx context.Context, _ int) error { <-ctx.Done(); return context.Cause(ctx) }}, nil, func(r *rig) {
		r.after(31 * time.Second)
		r.dialed(2)
		if e := r.s.Status().LastError; !strings.Contains(e, "no session within 30s") || strings.Count(e, "30s") > 1 {
			t.Fatal(e)
		}
	})
}

// TestDisabled: a disabled server is not connected, and calls say why.
func TestDisabled(t *testing.T) {
	scene(t, &world{}, func(c *Config) { c.Disabled = true }, func(r *rig) {
		r.s.Reconnect("alice")
		r.s.Park("why not")
		_, err := r.try(CallOptions{})
		want[*UnavailableError](t, err)
		r.after(time.Hour)
		r.dialed(0)
		r.state(Disabled)
	})
}

// TestCallsAtTheEdges: before Run a call waits; at shutdown the calls in flight
// end; after it they are refused; a caller's cancellation is its own cause; a
// message that can't be carried is refused alone.
func TestCallsAtTheEdges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Name: "x", Transport: &world{}})
		at := time.Now()
		_, err := s.Call(t.Context(), request, CallOptions{})
		if e := want[*ReconnectingError](t, err); time.Since(at) != 2*time.Second || e.State != Connecting {
			t.Fatalf("%v after %s", err, time.Since(at))
		}
	})
	scene(t, &world{call: hang}, nil, func(r *rig) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := r.s.Call(ctx, request, CallOptions{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { _, err = r.try(CallOptions{}) })
		r.after(time.Second)
		r.stop()
		wg.Wait()
		if want[*OutcomeUnknownError](t, err); !errors.Is(err, errShutdown) {
			t.Fatal(err)
		}
		<-r.ended
		_, err = r.try(CallOptions{})
		want[*UnavailableError](t, err)
		if r.s.Run(t.Context()) == nil {
			t.Fatal("Run ran twice")
		}
		if b := r.s.Status().Breaker; b.Failures != 0 {
			t.Fatalf("%+v", b)
		}
	})
	scene(t, &world{call: answer(session.Reply{}, &session.Failure{Reason: session.Oversize, Message: "70 MiB"})}, nil, func(r *rig) {
		for range 5 {
			_, err := r.try(CallOptions{})
			want[*RefusedError](t, err)
		}
		if st := r.s.Status(); st.Breaker.Failures != 0 || st.Failures != 5 || st.Calls != 5 || st.InFlight != 0 {
			t.Fatalf("%+v", st)
		}
	})
}
