package supervisor

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/hermes-host/hermes-host/breaker"
	"github.com/hermes-host/hermes-host/host/session"
)

// The promises of this file are the behaviour that the host was begun for. The
// breaker opens after three failures in a row and cools down for a minute, as
// it does by default.

// trip makes calls fail until the breaker is open. The session lives on.
func (r *rig) trip() {
	r.t.Helper()
	r.set(func(w *world) {
		w.call = answer(session.Reply{}, &session.Failure{Reason: session.HTTPStatus, Message: "503"})
	})
	for range 3 {
		if _, err := r.try(CallOptions{}); err == nil {
			r.t.Fatal("answered")
		}
	}
	r.circuit(breaker.Open)
}

func (r *rig) circuit(want breaker.State) {
	r.t.Helper()
	if got := r.s.Status().Breaker; got.State != want {
		r.t.Fatalf("the breaker is %+v, want %s", got, want)
	}
}

// refused makes a call that the breaker must refuse for so long.
func (r *rig) refused(want time.Duration) {
	r.t.Helper()
	before := r.latest().calls.Load()
	_, err := r.try(CallOptions{})
	if open, ok := as[*OpenError](err); !ok || open.RetryIn != want {
		r.t.Fatalf("%v, want a refusal for %s", err, want)
	}
	if r.latest().calls.Load() != before {
		r.t.Fatal("a refused call reached the session")
	}
}

// park has the server die and refuse connections until it parks, with no timer
// to bring it back, and the cooldown pass.
func (r *rig) park() {
	r.t.Helper()
	r.set(func(w *world) { w.dial = refuse("connection refused") })
	r.latest().die(gone("killed"))
	r.after(2 * time.Minute)
	r.state(Parked)
}

func noRevival(c *Config) { c.Revive.Min = 24 * time.Hour }

// TestProbeReachesTheSessionAndCloses: after the cooldown the next call really
// probes the session, and its success closes the breaker.
func TestProbeReachesTheSessionAndCloses(t *testing.T) {
	scene(t, &world{}, nil, func(r *rig) {
		r.trip()
		r.set(func(w *world) { w.call = nil })
		r.after(time.Minute - time.Millisecond)
		r.refused(time.Millisecond)
		r.after(time.Millisecond)
		before := r.latest().calls.Load()
		r.ok(1)
		if n := r.latest().calls.Load() - before; n != 1 {
			t.Fatalf("the probe reached the session %d times", n)
		}
		r.circuit(breaker.Closed)
		r.ok(1)
		r.dialed(1)
	})
}

// TestFailedProbeReArms: a failed probe re-arms the cooldown, every time,
// instead of letting everything through.
func TestFailedProbeReArms(t *testing.T) {
	scene(t, &world{}, nil, func(r *rig) {
		r.trip()
		for range 5 {
			r.after(time.Minute)
			before := r.latest().calls.Load()
			_, err := r.try(CallOptions{})
			want[*OutcomeUnknownError](t, err)
			if n := r.latest().calls.Load() - before; n != 1 {
				t.Fatalf("the probe reached the session %d times", n)
			}
			for range 10 {
				r.refused(time.Minute)
			}
		}
		r.set(func(w *world) { w.call = nil })
		r.after(time.Minute)
		r.ok(1)
		r.circuit(breaker.Closed)
	})
}

// TestAuthorizationClearsTheBreaker: a successful reconnect after the recovery
// of an authorization clears the breaker, even if the call that is then tried
// again fails: on a server that was parked for it, and on one whose session
// lives and refuses calls.
func TestAuthorizationClearsTheBreaker(t *testing.T) {
	for _, parked := range []bool{true, false} {
		scene(t, &world{}, nil, func(r *rig) {
			r.trip()
			if parked {
				denied := &session.End{Class: session.Auth, Message: "401, and nothing to refresh"}
				r.set(func(w *world) { w.dial = func(context.Context, int) error { return denied } })
				r.latest().die(denied)
				r.after(time.Second)
				r.state(Parked)
			} else {
				r.after(time.Minute)
				r.set(func(w *world) {
					w.call = answer(session.Reply{}, &session.Failure{Reason: session.NeedsAuth, Message: "401"})
				})
				_, err := r.try(CallOptions{}) // the probe, which says nothing
				want[*AuthNeededError](t, err)
				r.circuit(breaker.HalfOpen)
			}
			r.set(func(w *world) {
				w.dial = nil
				w.call = answer(session.Reply{}, &session.Failure{Reason: session.HTTPStatus, Message: "500"})
			})
			r.s.Authorized()
			r.after(0)
			r.state(Ready)
			r.circuit(breaker.Closed)
			_, err := r.try(CallOptions{})
			want[*OutcomeUnknownError](t, err)
			r.circuit(breaker.Closed)
			r.set(func(w *world) { w.call = nil })
			r.ok(r.latest().n)
		})
	}
}

// TestProbeWithoutASession: a half-open probe that finds no live session
// requests a reconnect and returns a clean "reconnecting" error, without
// touching the dead transport.
func TestProbeWithoutASession(t *testing.T) {
	scene(t, &world{}, noRevival, func(r *rig) {
		r.park()
		dead, dials := r.latest(), len(r.dials)
		calls := dead.calls.Load()
		_, err := r.try(CallOptions{})
		e := want[*ReconnectingError](t, err)
		if text := e.Error(); text != `server "x" is down (connection refused); the request was not sent; try again in 24h0m0s` {
			t.Fatal(text)
		}
		r.dialed(dials + 1)
		if dead.calls.Load() != calls || dead.late.Load() != 0 {
			t.Fatal("the probe was written to the dead session")
		}
	})
}

// TestBackAgainGoesStraightThrough: once the transport is back, the next call
// goes straight through: it waits for nothing and no cooldown.
func TestBackAgainGoesStraightThrough(t *testing.T) {
	for name, comes := range map[string]func(r *rig){
		"the probe's reconnect outlives its wait": func(r *rig) {
			r.set(func(w *world) {
				w.dial = func(context.Context, int) error { <-time.After(5 * time.Second); return nil }
			})
			_, err := r.try(CallOptions{})
			want[*ReconnectingError](r.t, err)
			r.refused(time.Minute)
			r.after(3 * time.Second)
		},
		"an operator's reconnect": func(r *rig) {
			r.set(func(w *world) { w.dial = nil })
			r.s.Reconnect("alice")
			r.after(0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			scene(t, &world{}, noRevival, func(r *rig) {
				r.park()
				comes(r)
				r.state(Ready)
				r.circuit(breaker.Closed)
				at := time.Now()
				r.ok(r.latest().n)
				if d := time.Since(at); d > 0 {
					t.Fatalf("the call took %s", d)
				}
			})
		})
	}
}

// TestParksInsteadOfReturning: when the budget is spent the run loop parks
// instead of returning, withdraws its tools, and a later reconnect signal makes
// it enter the transport again.
func TestParksInsteadOfReturning(t *testing.T) {
	scene(t, &world{}, noRevival, func(r *rig) {
		r.park()
		r.dialed(1 + 5)
		r.after(time.Hour)
		select {
		case <-r.ended:
			t.Fatal("Run returned")
		default:
		}
		r.state(Parked)
		r.dialed(1 + 5)
		if get(r.world, func(w *world) bool { return w.listed }) {
			t.Fatal("the tools of a parked server are in the catalog")
		}
		r.set(func(w *world) { w.dial = nil })
		r.s.Reconnect("alice")
		r.after(0)
		r.state(Ready)
		r.dialed(1 + 6)
		if !get(r.world, func(w *world) bool { return w.listed }) {
			t.Fatal("the tools are not back")
		}
		r.ok(7)
	})
}

// TestBudgetAndBackOffStartAnew: the budget is full again after every
// reconnect, and so is the back-off after every one that proved itself: drops
// never add up.
func TestBudgetAndBackOffStartAnew(t *testing.T) {
	scene(t, &world{}, noRevival, func(r *rig) {
		for range 10 {
			before := len(r.dials)
			r.set(func(w *world) {
				w.dial = func(_ context.Context, n int) error {
					if n <= before+4 {
						return gone("connection refused")
					}
					return nil
				}
			})
			died := time.Since(r.start)
			r.latest().die(gone("killed"))
			r.after(time.Minute)
			r.state(Ready)
			if left := r.s.Status().Left; left != 5 {
				t.Fatalf("%d attempts are left", left)
			}
			var waits []time.Duration
			for _, at := range r.dials[before:] {
				waits = append(waits, (at-died)*4/3) // the jitter takes a quarter
				died = at
			}
			ms := time.Millisecond
			first := waits[0]
			if want := []time.Duration{first, 1000 * ms, 2000 * ms, 4000 * ms, 8000 * ms}; first > time.Second || !slices.Equal(waits, want) {
				t.Fatalf("waits %v, want %v", waits, want)
			}
			r.ok(before + 5)
		}
		r.park() // the whole budget is there
	})
}

// TestWithdrawingIsIdempotent: parking withdraws; parking what is parked, and
// the shutdown of what is parked, may withdraw again, and nothing comes of it:
// the entries are gone, and come back whole.
func TestWithdrawingIsIdempotent(t *testing.T) {
	scene(t, &world{}, noRevival, func(r *rig) {
		r.park()
		once := get(r.world, func(w *world) int { return w.withdraw })
		if once == 0 {
			t.Fatal("parking does not withdraw")
		}
		for range 3 {
			r.s.Park("for maintenance")
			r.after(0)
			r.state(Parked)
		}
		r.set(func(w *world) { w.dial = nil })
		r.s.Reconnect("alice")
		r.after(0)
		r.state(Ready)
		if !get(r.world, func(w *world) bool { return w.listed }) {
			t.Fatal("the entries are not back")
		}
		r.s.Park("for maintenance")
		r.after(0)
		r.stop()
		<-r.ended
		if get(r.world, func(w *world) bool { return w.listed }) {
			t.Fatal("the entries are there after the shutdown")
		}
	})
}

// TestShutdownBeforeReconnect: a shutdown wins over a reconnect signal that
// comes with it, whether the server is parked, waits or is ready.
func TestShutdownBeforeReconnect(t *testing.T) {
	for name, prepare := range map[string]func(r *rig){
		"parked": func(r *rig) { r.park() },
		"waiting": func(r *rig) {
			r.set(func(w *world) { w.dial = refuse("connection refused") })
			r.latest().die(gone("killed"))
			r.after(2 * time.Second)
			r.state(Reconnecting)
		},
		"ready": func(r *rig) { r.state(Ready) },
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // select chooses at random
				scene(t, &world{}, noRevival, func(r *rig) {
					prepare(r)
					dials := len(r.dials)
					r.stop()
					r.s.Reconnect("alice")
					r.s.Authorized()
					<-r.ended
					r.dialed(dials)
					r.state(Stopped)
				})
			}
		})
	}
}
