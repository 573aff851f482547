package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-host/hermes-host/breaker"
	"github.com/hermes-host/hermes-host/host/session"
)

// These tests are about servers that hang while their callers have less patience
// than the host. The limits are the defaults: 5 s for a check, 5 min for a call.

// wedged is a world whose first session answers neither calls nor checks.
func wedged() *world {
	return &world{
		call: func(ctx context.Context, f *fake, req session.Request) (session.Reply, error) {
			if f.n == 1 {
				return hang(ctx, f, req)
			}
			return session.Reply{Result: fmt.Appendf(nil, `{"session":%d}`, f.n)}, nil
		},
		healthy: func(ctx context.Context, f *fake) error {
			if f.n == 1 {
				<-ctx.Done()
			}
			return ctx.Err()
		},
	}
}

// impatient makes a call and gives it up after a while.
func (r *rig) impatient(patience time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	reply, err := r.s.Call(ctx, request, CallOptions{})
	return string(reply.Result), err
}

// checked returns how many checks there were.
func (r *rig) checked() int { return get(r.world, func(w *world) int { return w.checks }) }

// TestHungServerOfImpatientCallers: whatever patience callers have, and although
// one call or another is always in flight, a server that hangs is replaced: by a
// check when it has been silent for as long as one takes, if no call is in
// flight at its end, and else by one more when the last has ended. Calls that are
// made during the first check wait for its verdict, those that come later are
// refused at once.
func TestHungServerOfImpatientCallers(t *testing.T) {
	for _, patience := range []time.Duration{100 * time.Millisecond, time.Second, 3 * time.Second, 15 * time.Second, time.Minute} {
		for _, callers := range []int{1, 4} {
			t.Run(fmt.Sprintf("%d callers, %s", callers, patience), func(t *testing.T) {
				scene(t, wedged(), nil, func(r *rig) {
					start := time.Now()
					within := max(patience, 5*time.Second) + 5*time.Second
					if callers > 1 && patience > 5*time.Second {
						within += patience // what the others may have left, and a check
					}
					var all sync.WaitGroup
					for n := range callers {
						all.Go(func() {
							<-time.After(time.Duration(n) * patience / time.Duration(callers))
							for {
								at := time.Now()
								got, err := r.impatient(patience)
								var open *OpenError
								switch {
								case err == nil && got == `{"session":2}`:
									return
								case time.Since(start) > within+time.Second:
									t.Errorf("after %s: %q, %v", time.Since(start), got, err)
									return
								case errors.As(err, &open):
									if time.Since(at) > 5*time.Second || !strings.Contains(err.Error(), "no sign of life") || open.RetryIn > 0 {
										t.Errorf("refused after %s with %v", time.Since(at), err)
									}
									<-time.After(200 * time.Millisecond)
								case !errors.Is(err, context.DeadlineExceeded):
									t.Errorf("call: %q, %v", got, err)
								}
							}
						})
					}
					all.Wait()
					r.after(0)
					r.state(Ready)
					r.dialed(2)
					r.circuit(breaker.Closed)
					if st := r.s.Status(); !strings.Contains(st.LastError, "no sign of life") {
						t.Errorf("last error %q", st.LastError)
					}
					r.went(Ready, Reconnecting, Ready)
				})
			})
		}
	}
}

// TestOneGivenUpCallIsEnough: no second call is needed for a hung server to be
// found.
func TestOneGivenUpCallIsEnough(t *testing.T) {
	scene(t, wedged(), nil, func(r *rig) {
		_, err := r.impatient(time.Second)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		r.after(4*time.Second - 1)
		if r.checked() != 0 {
			t.Fatal("checked before it has been silent for 5 s")
		}
		r.after(1)
		if r.checked() != 1 {
			t.Fatalf("%d checks after 5 s of silence", r.checked())
		}
		r.after(5*time.Second - 1)
		r.state(Ready)
		r.after(1)
		r.state(Reconnecting)
		r.ok(2)
	})
}

// TestBusyServerKeepsItsCall: a server that does one thing at a time, and
// answers nothing meanwhile, does not lose it because other callers give up
// theirs. They are refused from then on, until it says something.
func TestBusyServerKeepsItsCall(t *testing.T) {
	for _, sign := range []string{"answer", "notification", "request"} {
		t.Run(sign, func(t *testing.T) {
			busy := make(chan struct{})
			w := &world{}
			w.call = func(ctx context.Context, f *fake, req session.Request) (session.Reply, error) {
				select {
				case <-busy:
					return session.Reply{Result: []byte(`{"session":1}`)}, nil
				case <-ctx.Done():
					return session.Reply{}, context.Cause(ctx)
				}
			}
			w.healthy = func(ctx context.Context, _ *fake) error {
				select {
				case <-busy:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			var notes []Transition
			scene(t, w, func(c *Config) {
				c.OnAttempt = func(tr Transition) { w.set(func(*world) { notes = append(notes, tr) }) }
			}, func(r *rig) {
				busy = make(chan struct{})
				var got string
				var err error
				var long sync.WaitGroup
				long.Go(func() { got, err = r.try(CallOptions{}) })
				r.after(0)
				begun := time.Now()
				if _, err := r.impatient(time.Minute); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				r.circuit(breaker.Closed)
				r.after(5 * time.Second)
				r.circuit(breaker.Open)
				st := r.s.Status()
				if st.State != Ready || st.Trouble.Kind != Mute || !st.Trouble.Since.Equal(begun) || st.LastErrorAt.IsZero() || st.Breaker.Failures != 0 {
					t.Fatalf("%+v", st)
				}
				for range 50 { // for longer than a cooldown
					_, err := r.impatient(time.Minute)
					if e := want[*OpenError](t, err); e.RetryIn != 0 || !strings.Contains(e.Error(), "no sign of life") {
						t.Fatal(e)
					}
					r.after(4 * time.Second)
				}
				if sent := r.latest().calls.Load(); sent != 2 {
					t.Fatalf("%d calls were sent", sent)
				}
				r.dialed(1)
				switch sign {
				case "answer":
					close(busy)
				case "notification":
					r.latest().handler.Notification(session.Notification{Method: "notifications/progress"})
				case "request":
					r.latest().handler.Request(session.ServerRequest{Method: "roots/list"})
				}
				r.after(0)
				r.circuit(breaker.Closed)
				if st := r.s.Status(); st.Trouble.Kind != NoTrouble {
					t.Fatalf("%+v", st.Trouble)
				}
				if sign != "answer" {
					close(busy)
				}
				long.Wait()
				if err != nil || got != `{"session":1}` {
					t.Fatalf("the long call: %q, %v", got, err)
				}
				r.ok(1)
				r.after(time.Minute)
				r.dialed(1)
				r.went(Ready)
				if len(notes) != 2 || notes[0].From != Ready || notes[0].To != Ready || notes[0].Cause == nil || notes[1].Cause != nil {
					t.Fatalf("told %+v", notes)
				}
			})
		})
	}
}

// TestBusyServerWhoseLastCallerLeaves: when a mute session has lost its last
// caller it is checked again. A server that was busy with that call answers
// now, and stays.
func TestBusyServerWhoseLastCallerLeaves(t *testing.T) {
	for _, frees := range []bool{true, false} {
		free := false
		w := &world{call: hang}
		w.healthy = func(ctx context.Context, f *fake) error {
			if f.n > 1 || get(w, func(*world) bool { return free }) {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
		scene(t, w, nil, func(r *rig) {
			ctx, leave := context.WithCancel(context.Background())
			var long sync.WaitGroup
			long.Go(func() { _, _ = r.s.Call(ctx, request, CallOptions{}) })
			r.after(0)
			_, _ = r.impatient(15 * time.Second)
			r.after(5 * time.Second)
			if st := r.s.Status(); st.Trouble.Kind != Mute {
				t.Fatalf("%+v", st)
			}
			r.after(time.Minute)
			r.set(func(*world) { free = frees })
			leave()
			long.Wait()
			r.after(0)
			if r.set(func(w *world) { w.call = nil }); frees {
				r.ok(1)
				r.circuit(breaker.Closed)
				return
			}
			r.after(5*time.Second - 1)
			r.dialed(1)
			r.after(1)
			r.dialed(2)
			r.ok(2)
		})
	}
}

// TestMuteSessionThatDies: the breaker does not hold calls back that come while
// a mute session's successor is being made.
func TestMuteSessionThatDies(t *testing.T) {
	w := wedged()
	scene(t, w, nil, func(r *rig) {
		r.set(func(w *world) { w.dial = func(context.Context, int) error { <-time.After(time.Second); return nil } })
		var long sync.WaitGroup
		long.Go(func() { _, _ = r.try(CallOptions{}) })
		_, _ = r.impatient(6 * time.Second)
		r.after(5 * time.Second)
		r.circuit(breaker.Open)
		r.latest().die(gone("killed"))
		long.Wait()
		r.circuit(breaker.Closed)
		r.ok(2)
	})
}

// TestQuicklyGivenUp: who gives up calls again and again, at a server that is
// slow and well, changes nothing.
func TestQuicklyGivenUp(t *testing.T) {
	w := &world{call: hang}
	told := 0
	scene(t, w, func(c *Config) { c.OnAttempt = func(Transition) { told++ } }, func(r *rig) {
		before := r.s.Status()
		for range 500 {
			_, err := r.impatient(300 * time.Millisecond)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		r.after(time.Minute)
		after := r.s.Status()
		if after.Calls, before.Session, after.Session = 0, nil, nil; fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("before %+v\nafter %+v", before, after)
		}
		if r.went(Ready); told > 0 {
			t.Errorf("%d events", told)
		}
		if most := 150/5 + 1; r.checked() > most {
			t.Errorf("%d checks in 150 s, want %d at most", r.checked(), most)
		}
	})
}

// TestSignsOfLife: a session that says something, be it on its own account,
// is not checked for calls that were given up before; answers to other calls
// count as well.
func TestSignsOfLife(t *testing.T) {
	w := wedged()
	scene(t, w, nil, func(r *rig) {
		for range 60 {
			_, _ = r.impatient(time.Second)
			r.latest().handler.Notification(session.Notification{Method: "notifications/message"})
		}
		if r.checked() != 0 {
			t.Fatalf("%d checks", r.checked())
		}
		_, _ = r.impatient(time.Second)
		r.after(3 * time.Second)
		r.set(func(w *world) { w.call = nil })
		r.ok(1)
		r.after(time.Minute)
		if r.checked() != 0 || r.s.Status().State != Ready {
			t.Fatalf("%d checks", r.checked())
		}
	})
}

// TestAnswerDuringTheCheck: what the server says while it is being checked, and
// the check gets no answer, saves it.
func TestAnswerDuringTheCheck(t *testing.T) {
	scene(t, wedged(), nil, func(r *rig) {
		_, _ = r.impatient(6 * time.Second)
		r.after(3 * time.Second)
		if r.checked() != 1 {
			t.Fatalf("%d checks", r.checked())
		}
		r.latest().handler.Notification(session.Notification{Method: "notifications/message"})
		r.after(10 * time.Minute)
		r.dialed(1)
		r.went(Ready)
	})
}

// TestSilenceUnderTheHostsLimit: a call that the host gives up has the session
// checked, as one that its caller gives up; three that open the breaker do not
// end a session with calls in flight either.
func TestSilenceUnderTheHostsLimit(t *testing.T) {
	scene(t, wedged(), nil, func(r *rig) {
		_, err := r.try(CallOptions{Timeout: 10 * time.Second})
		want[*TimeoutError](t, err)
		r.after(5 * time.Second)
		r.ok(2)
	})
	scene(t, wedged(), nil, func(r *rig) {
		ended := time.Duration(0)
		var long sync.WaitGroup
		at := time.Now()
		long.Go(func() { _, _ = r.try(CallOptions{Timeout: time.Minute}); ended = time.Since(at) })
		r.after(0)
		for range 3 {
			_, err := r.try(CallOptions{Timeout: time.Second})
			want[*TimeoutError](t, err)
		}
		r.circuit(breaker.Open)
		long.Wait()
		if ended != time.Minute {
			t.Fatalf("the call in flight ended after %s", ended)
		}
		r.after(5 * time.Second)
		r.ok(2)
	})
}

// TestDrainsOnce: a thousand callers of a mute session cost nothing, and of many
// that leave it at once only one check follows.
func TestDrainsOnce(t *testing.T) {
	scene(t, wedged(), nil, func(r *rig) {
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { _, _ = r.impatient(20 * time.Second) })
		}
		_, _ = r.impatient(6 * time.Second)
		r.after(5 * time.Second)
		for range 1000 {
			all.Go(func() { _, err := r.impatient(time.Hour); want[*OpenError](t, err) })
		}
		all.Wait()
		r.after(0)
		if r.checked() != 2 {
			t.Fatalf("%d checks", r.checked())
		}
		r.after(5 * time.Second)
		r.ok(2)
	})
}

// TestCallsWaitForTheVerdict: calls that come while a doubtful session is being
// checked don't go to it. A lone caller who calls again as soon as it has given
// up is answered by the next session, whatever its patience; at a server that
// lives it goes on at once.
func TestCallsWaitForTheVerdict(t *testing.T) {
	for _, lives := range []bool{true, false} {
		w := wedged()
		if lives {
			w.healthy = func(context.Context, *fake) error { <-time.After(3 * time.Second); return nil }
		}
		scene(t, w, nil, func(r *rig) {
			_, _ = r.impatient(time.Minute)
			if lives {
				r.set(func(w *world) { w.call = nil })
			}
			at := time.Now()
			got, err := r.impatient(time.Minute)
			took, session := time.Since(at), 2
			if lives {
				session = 1
				if took != 3*time.Second {
					t.Errorf("answered after %s", took)
				}
			}
			if want := fmt.Sprintf(`{"session":%d}`, session); err != nil || got != want || took > 7*time.Second {
				t.Errorf("%q, %v after %s", got, err, took)
			}
		})
	}
}
