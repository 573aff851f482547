package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-host/hermes-host/breaker"
	"github.com/hermes-host/hermes-host/host/session"
)

// TestRunReturnsOnShutdownAlone: Run goes on through every kind of failure and
// park, and returns on shutdown, at once.
func TestRunReturnsOnShutdownAlone(t *testing.T) {
	for name, dial := range map[string]func(context.Context, int) error{
		"refused":       refuse("connection refused"),
		"plain error":   func(context.Context, int) error { return errors.New("no such host") },
		"authorization": func(context.Context, int) error { return &session.End{Class: session.Auth, Message: "401"} },
		"configuration": func(context.Context, int) error {
			return &session.End{Class: session.ConfigFault, Message: "no such command"}
		},
		"hangs":   func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() },
		"healthy": nil,
	} {
		t.Run(name, func(t *testing.T) {
			scene(t, &world{dial: dial}, nil, func(r *rig) {
				r.after(7 * time.Hour)
				select {
				case <-r.ended:
					t.Fatal("Run returned")
				default:
				}
				at := time.Now()
				r.stop()
				<-r.ended
				if d := time.Since(at); d > 0 {
					t.Fatalf("shutdown took %s", d)
				}
			})
		})
	}
}

// TestShutdownWins: a reconnect signal that comes together with the shutdown
// starts nothing.
func TestShutdownWins(t *testing.T) {
	for range 50 {
		var r atomic.Pointer[rig]
		scene(t, &world{dial: func(context.Context, int) error { <-time.After(time.Second); return gone("down") }}, func(c *Config) {
			c.OnTransition = func(tr Transition) { // Run's goroutine: it sees both at once
				if tr.To == Parked {
					r.Load().s.Reconnect("operator")
					r.Load().stop()
				}
			}
		}, func(started *rig) {
			r.Store(started)
			<-started.ended
			started.dialed(5)
		})
	}
}

// TestShutdownOvertakesOrders: of orders that are taken together, those after
// the shutdown are not carried out.
func TestShutdownOvertakesOrders(t *testing.T) {
	slow := func(context.Context, int) error { <-time.After(time.Second); return nil }
	var r atomic.Pointer[rig]
	scene(t, &world{dial: slow}, func(c *Config) {
		note := c.OnTransition
		c.OnTransition = func(tr Transition) {
			note(tr)
			switch tr.To {
			case Ready:
				r.Load().s.Park("first")
				r.Load().s.Reconnect("second")
			case Parked:
				r.Load().stop()
			}
		}
	}, func(started *rig) {
		r.Store(started)
		<-started.ended
		started.went(Ready, Parked, Stopped)
	})
}

// TestProbeWithoutSessionReArms: a probe that finds no session asks for one,
// waits its time, and is a failure: the calls after it are refused for another
// cooldown, while the attempt it caused goes on.
func TestProbeWithoutSessionReArms(t *testing.T) {
	scene(t, &world{dial: refuse("down")}, func(c *Config) { c.Revive.Min = time.Hour }, func(r *rig) {
		r.after(2 * time.Minute)
		r.state(Parked)
		r.set(func(w *world) {
			w.dial = func(ctx context.Context, _ int) error { <-ctx.Done(); return context.Cause(ctx) }
		})
		at := time.Now()
		_, err := r.try(CallOptions{})
		if want[*ReconnectingError](t, err); time.Since(at) != 2*time.Second {
			t.Fatalf("waited %s", time.Since(at))
		}
		for range 5 {
			_, err = r.try(CallOptions{})
			if e := want[*OpenError](t, err); e.RetryIn != time.Minute {
				t.Fatalf("%+v", e)
			}
		}
		r.state(Reconnecting)
		r.dialed(6)
	})
}

// TestProbation: a server that is back from a park, without an operator's
// word, and dies unproven is parked again at once; once proven it has its
// budget like any other.
func TestProbation(t *testing.T) {
	for _, proven := range []bool{false, true} {
		scene(t, &world{dial: refuse("down")}, nil, func(r *rig) {
			r.after(30 * time.Second)
			r.state(Parked)
			r.set(func(w *world) { w.dial = nil })
			r.after(50 * time.Second)
			r.state(Ready)
			if proven {
				r.ok(6)
			}
			r.set(func(w *world) { w.dial = refuse("down again") })
			r.latest().die(gone("killed"))
			r.after(time.Second / 2)
			if proven {
				r.state(Reconnecting)
			} else {
				r.state(Parked)
			}
		})
	}
}

// TestShutdownIsBounded: a session that does not close in order is given
// Timeouts.Close and no more.
func TestShutdownIsBounded(t *testing.T) {
	scene(t, &world{closing: time.Hour}, nil, func(r *rig) {
		r.state(Ready)
		at := time.Now()
		r.stop()
		<-r.ended
		if d := time.Since(at); d != 10*time.Second {
			t.Fatalf("shutdown took %s", d)
		}
	})
}

// TestShutdownClosesWhatJustOpened: a session that arrives during the shutdown
// is closed. The rig counts.
func TestShutdownClosesWhatJustOpened(t *testing.T) {
	w := &world{dial: func(context.Context, int) error { <-time.After(time.Second); return nil }}
	scene(t, w, nil, func(r *rig) {
		r.stop()
		<-r.ended
		if len(w.sessions) != 1 {
			t.Fatal("no session opened")
		}
	})
}

// TestEveryDeathIsTheSameEvent: a dead plugin, a dead server, a broken stream
// and a lost HTTP session take the same way: the same states, one close, an
// immediate redial, and the next call works.
func TestEveryDeathIsTheSameEvent(t *testing.T) {
	for _, end := range []*session.End{
		gone("the plugin died"), gone("the server died"), gone("the stream broke"),
		{Class: session.Lost, Message: "404 session not found", Retryable: true},
		nil, // a session that breaks the contract and gives no reason
	} {
		scene(t, &world{}, nil, func(r *rig) {
			r.ok(1)
			r.latest().die(end)
			r.ok(2)
			r.after(0)
			r.went(Ready, Reconnecting, Ready)
			if reason := r.moves[1].Reason; reason == "" || end != nil && reason != end.Message {
				t.Fatalf("reason %q", reason)
			}
			if get(r.world, func(w *world) int { return w.open }) != 1 {
				t.Fatal("the old session was not closed")
			}
		})
	}
}

// TestBackOffThenPark: the waits double up to their limit, a quarter more or
// less at random and never over the limit;
// when the budget is spent the server parks, and its entries leave the
// catalog. The first connect has the same budget as a later one.
func TestBackOffThenPark(t *testing.T) {
	for _, first := range []bool{true, false} {
		for _, jitter := range []float64{0, 0.5, 1} {
			t.Run(fmt.Sprintf("first=%v jitter=%v", first, jitter), func(t *testing.T) {
				w := &world{}
				if first {
					w.dial = refuse("refused")
				}
				scene(t, w, func(c *Config) {
					c.Retry.Budget, c.Retry.Max = 6, 10*time.Second
					c.Jitter = func() float64 { return jitter }
				}, func(r *rig) {
					if !first {
						r.ok(1)
						r.set(func(w *world) { w.dial, w.dials, w.start = refuse("refused"), nil, time.Now() })
						r.latest().die(gone("killed"))
					}
					r.after(59 * time.Second)
					r.state(Parked)
					var want []time.Duration
					at := time.Duration(0)
					for _, d := range []time.Duration{0, 1000, 2000, 4000, 8000, 10000} {
						d *= time.Millisecond
						at += min(d*3/4+time.Duration(jitter*float64(d/2)), 10*time.Second)
						want = append(want, at)
					}
					if !slices.Equal(r.dials, want) {
						t.Fatalf("dials at %v, want %v", r.dials, want)
					}
					if r.listed || r.withdraw == 0 {
						t.Fatal("a parked server's entries are in the catalog")
					}
					if st := r.s.Status(); st.Left != 0 || st.Reason != "refused" || st.LastError != "refused" || st.Breaker.State != breaker.Open {
						t.Fatalf("status %+v", st)
					}
				})
			})
		}
	}
}

// TestParkedComesBack: a parked server comes back on each of the signals.
func TestParkedComesBack(t *testing.T) {
	for name, wake := range map[string]func(r *rig){
		"probe":         func(r *rig) { r.after(60*time.Second - time.Millisecond); r.ok(6) },
		"operator":      func(r *rig) { r.s.Reconnect("alice") },
		"authorization": func(r *rig) { r.s.Authorized() },
		"revive timer":  func(r *rig) { r.after(61 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			scene(t, &world{dial: refuse("down")}, func(c *Config) {
				c.Breaker.Cooldown = 50 * time.Second
			}, func(r *rig) {
				for r.s.Status().State != Parked {
					r.after(time.Second)
				}
				r.dialed(5)
				r.set(func(w *world) { w.dial = nil })
				wake(r)
				r.after(0)
				r.state(Ready)
				r.dialed(6)
				r.ok(6)
				if !get(r.world, func(w *world) bool { return w.listed }) {
					t.Fatal("the entries are not back")
				}
				if st := r.s.Status(); st.Left != 5 {
					t.Fatalf("budget left %d", st.Left)
				}
			})
		})
	}
}

// TestRevivalGrowsAndIsOneAttempt: the revive timer starts at 60 s, doubles to
// 5 min, and each time buys one attempt.
func TestRevivalGrowsAndIsOneAttempt(t *testing.T) {
	scene(t, &world{dial: refuse("down")}, nil, func(r *rig) {
		r.after(20 * time.Minute)
		r.state(Parked)
		var gaps []time.Duration
		for i := 5; i < len(r.dials); i++ {
			gaps = append(gaps, (r.dials[i] - r.dials[i-1]).Round(time.Second))
		}
		want := []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute}
		if !slices.Equal(gaps, want) {
			t.Fatalf("revived after %v, want %v", gaps, want)
		}
	})
}

// TestOperatorGivesTheFullBudget: after an operator's signal the server has
// all its attempts, after a call's one.
func TestOperatorGivesTheFullBudget(t *testing.T) {
	scene(t, &world{dial: refuse("down")}, func(c *Config) { c.Revive.Min = time.Hour }, func(r *rig) {
		r.after(30 * time.Second)
		r.state(Parked)
		r.s.Reconnect("alice")
		r.after(30 * time.Second)
		r.state(Parked)
		r.dialed(10)
		r.after(time.Minute)
		_, err := r.try(CallOptions{})
		want[*ReconnectingError](t, err)
		r.dialed(11)
		r.state(Parked)
	})
}

// TestThousandCallersOneDial: the callers who find the server down share one
// attempt and its outcome.
func TestThousandCallersOneDial(t *testing.T) {
	slow := func(ctx context.Context, _ int) error { <-time.After(time.Second); return nil }
	for _, up := range []bool{true, false} {
		scene(t, &world{}, func(c *Config) { c.Retry.Base = 5 * time.Second }, func(r *rig) {
			r.ok(1)
			r.set(func(w *world) {
				w.dial = slow
				if !up {
					w.dial = func(ctx context.Context, n int) error { _ = slow(ctx, n); return gone("refused") }
				}
			})
			r.latest().die(gone("killed"))
			errs := make([]error, 1000)
			var wg sync.WaitGroup
			for i := range errs {
				wg.Go(func() { _, errs[i] = r.try(CallOptions{}) })
			}
			wg.Wait()
			r.dialed(2)
			for _, err := range errs {
				if up && err != nil {
					t.Fatal(err)
				} else if !up {
					if e := want[*ReconnectingError](t, err); e.RetryIn <= 0 || !strings.Contains(e.Error(), "refused") {
						t.Fatalf("%+v", e)
					}
				}
			}
		})
	}
}

// TestThousandCallersWakeOnce: past the cooldown, a thousand callers of a
// parked server cause one attempt, and only the probe waits for it.
func TestThousandCallersWakeOnce(t *testing.T) {
	scene(t, &world{dial: refuse("down")}, func(c *Config) { c.Revive.Min = time.Hour }, func(r *rig) {
		r.after(2 * time.Minute)
		r.state(Parked)
		n := len(r.dials)
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if _, err := r.try(CallOptions{}); err == nil {
					t.Error("answered by a server that is down")
				}
			})
		}
		wg.Wait()
		r.dialed(n + 1)
	})
}

// TestStaleSignalDoesNotUndoPark: a demand that saw an earlier park, and comes
// late, does not wake the server from this one.
func TestStaleSignalDoesNotUndoPark(t *testing.T) {
	scene(t, &world{dial: refuse("down")}, func(c *Config) { c.Revive.Min = time.Hour }, func(r *rig) {
		r.after(time.Minute)
		r.state(Parked)
		stale := demand{r.s.view.Load().parked.number}
		r.s.Reconnect("alice")
		r.after(time.Minute)
		r.state(Parked)
		n := len(r.dials)
		r.s.mail.post(stale)
		r.s.mail.post(demand{0})
		r.after(time.Minute)
		r.dialed(n)
		r.s.mail.post(demand{r.s.view.Load().parked.number})
		r.after(0)
		r.dialed(n + 1)
	})
}

// TestSpacedBlipsNeverPark: the budget is full again after each session, so
// twenty recovered blips, and six flaps in six hours, never park the server;
// nor do two hundred kills with calls in between.
func TestSpacedBlipsNeverPark(t *testing.T) {
	for _, c := range []struct {
		n     int
		every time.Duration
		fails int
	}{{20, 10 * time.Minute, 4}, {6, time.Hour, 4}, {200, 100 * time.Millisecond, 0}} {
		scene(t, &world{}, nil, func(r *rig) {
			for range c.n {
				r.after(c.every)
				before := len(r.dials)
				r.set(func(w *world) {
					w.dial = func(_ context.Context, n int) error {
						if n <= before+c.fails {
							return gone("refused")
						}
						return nil
					}
				})
				_, _ = r.try(CallOptions{})
				r.latest().die(gone("killed"))
				r.after(time.Minute * time.Duration(min(c.fails, 1)))
				r.ok(before + c.fails + 1)
			}
			if slices.Contains(r.path(), Parked) {
				t.Fatal("parked")
			}
		})
	}
}

// TestCrashLoopParks: a server that starts well and dies two seconds later,
// for ever, is started eleven times and parked; each revival is one start.
func TestCrashLoopParks(t *testing.T) {
	scene(t, &world{}, nil, func(r *rig) {
		kill := func() { r.after(2 * time.Second); r.latest().die(gone("segfault")) }
		for range 11 {
			kill()
			r.after(time.Second)
		}
		r.state(Parked)
		r.dialed(11)
		if reason := r.s.Status().Reason; !strings.Contains(reason, "segfault") || !strings.Contains(reason, "11 sessions") {
			t.Fatalf("reason %q", reason)
		}
		r.after(time.Minute)
		r.dialed(12)
		r.state(Ready)
		kill()
		r.after(10 * time.Second)
		r.state(Parked)
		r.dialed(12)
		// And so it goes on: a day has 288 times five minutes.
		for range 24 * 60 * 60 / 2 {
			r.after(2 * time.Second)
			if r.s.Status().State == Ready {
				r.latest().die(gone("segfault"))
			}
		}
		if n := len(r.dials); n > 12+290 {
			t.Fatalf("%d starts in a day", n)
		}
	})
}

// TestUnprovenSessionKeepsTheBackOff: a session that dies young without an
// answered call leaves the back-off where it was; one that answered a call, or
// lived 30 s, sets it back, and the next dial is immediate.
func TestUnprovenSessionKeepsTheBackOff(t *testing.T) {
	for name, c := range map[string]struct {
		live func(r *rig)
		wait time.Duration
	}{
		"young":  {func(r *rig) { r.after(29 * time.Second) }, 3 * time.Second},
		"old":    {func(r *rig) { r.after(30 * time.Second) }, 0},
		"useful": {func(r *rig) { r.ok(4) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			scene(t, &world{dial: func(_ context.Context, n int) error {
				if n <= 3 {
					return gone("refused")
				}
				return nil
			}}, nil, func(r *rig) {
				r.after(5250 * time.Millisecond)
				r.state(Ready)
				c.live(r)
				died := time.Since(r.start)
				r.latest().die(gone("killed"))
				r.after(10 * time.Second)
				r.dialed(5)
				if got := r.dials[4] - died; got != c.wait {
					t.Fatalf("redialled after %s, want %s", got, c.wait)
				}
			})
		})
	}
}

// TestPublishThenReset: when the breaker closes because a session is up, the
// session is already there.
func TestPublishThenReset(t *testing.T) {
	var s *Supervisor
	var missing bool
	scene(t, &world{dial: refuse("down")}, func(c *Config) {
		c.Breaker.OnChange = func(_, to breaker.State) {
			if to == breaker.Closed && s.Session() == nil {
				missing = true
			}
		}
	}, func(r *rig) {
		s = r.s
		r.after(time.Minute)
		r.state(Parked)
		r.set(func(w *world) { w.dial = nil })
		r.after(2 * time.Minute) // the revive timer
		r.state(Ready)
		if st := r.s.Status(); st.Breaker.State != breaker.Closed || missing {
			t.Fatalf("breaker %s, closed before the session was there: %v", st.Breaker.State, missing)
		}
	})
}

// TestInitClosesTheBreakerThoughTheCallFails: a reconnect closes the breaker
// even if the call that caused it then fails; that is one strike, not three.
func TestInitClosesTheBreakerThoughTheCallFails(t *testing.T) {
	w := &world{dial: refuse("down"), call: func(context.Context, *fake, session.Request) (session.Reply, error) {
		return session.Reply{}, &session.Failure{Reason: session.HTTPStatus, Message: "502"}
	}}
	scene(t, w, func(c *Config) { c.Revive.Min = time.Hour }, func(r *rig) {
		r.after(90 * time.Second)
		r.state(Parked)
		r.set(func(w *world) { w.dial = nil })
		_, err := r.try(CallOptions{})
		want[*OutcomeUnknownError](t, err)
		r.after(0)
		r.state(Ready)
		if b := r.s.Status().Breaker; b.State != breaker.Closed || b.Failures != 1 {
			t.Fatalf("breaker %+v", b)
		}
	})
}

// TestReadyMeansListed: the server is not ready before its lists are there.
func TestReadyMeansListed(t *testing.T) {
	w := &world{list: func(context.Context, *fake, Lists) error { <-time.After(3 * time.Second); return nil }}
	scene(t, w, nil, func(r *rig) {
		r.after(2 * time.Second)
		r.state(Connecting)
		r.after(time.Second)
		r.state(Ready)
	})
}

// TestRefusedList: a server that refuses one of its lists is ready with the
// others, and asked for that one again, at a growing pace.
func TestRefusedList(t *testing.T) {
	w := &world{list: func(_ context.Context, _ *fake, which Lists) error {
		if which&Resources != 0 {
			return &PartialError{Lists: Resources, Err: errors.New("no database")}
		}
		return nil
	}}
	scene(t, w, nil, func(r *rig) {
		r.after(0)
		r.state(Ready)
		r.after(time.Hour)
		r.state(Ready)
		r.dialed(1)
		lists := get(w, func(w *world) []Lists { return w.lists })
		if n := len(lists); n < 50 || n > 70 || lists[n-1] != Resources {
			t.Errorf("%d lists in an hour, the last of %b", n, lists[n-1])
		}
		r.set(func(w *world) { w.list = nil })
		r.after(2 * time.Minute)
		n := len(get(w, func(w *world) []Lists { return w.lists }))
		r.after(time.Hour)
		if m := len(get(w, func(w *world) []Lists { return w.lists })); m != n {
			t.Errorf("asked %d times more after all was well", m-n)
		}
	})
}

// TestNothingIsWrittenToTheDead: a session that is known to be dead gets no
// call, not even before Run has heard of its end, and not from a probe.
func TestNothingIsWrittenToTheDead(t *testing.T) {
	scene(t, &world{}, nil, func(r *rig) {
		r.ok(1)
		dead := r.latest()
		r.set(func(w *world) { w.dial = refuse("down") })
		dead.die(gone("killed"))
		for range 300 {
			_, err := r.try(CallOptions{Idempotent: true})
			if err == nil {
				t.Fatal("answered")
			}
			r.after(time.Second)
		}
		if n := dead.late.Load(); n > 0 {
			t.Fatalf("%d calls to a dead session", n)
		}
	})
}

// TestLateEventsChangeNothing: exit events, messages and lists of an old
// session leave the new one alone.
func TestLateEventsChangeNothing(t *testing.T) {
	scene(t, &world{}, nil, func(r *rig) {
		r.ok(1)
		old, oldLive := r.latest(), r.s.view.Load().live
		old.die(gone("killed"))
		r.ok(2)
		r.after(5 * time.Second)
		before, lists := len(r.moves), len(r.lists)
		r.set(func(w *world) { w.heard = nil })

		old.handler.Notification(session.Notification{Method: "notifications/tools/list_changed"})
		old.handler.Request(session.ServerRequest{Method: "elicitation/create"})
		old.handler.Log(session.LogLine{Text: "goodbye"})
		r.s.mail.post(suspect{oldLive.gen})
		r.s.mail.post(stale{oldLive.gen, AllLists})
		for _, m := range []message{ended{oldLive}, listed{live: oldLive, err: errors.New("late")}, checked{oldLive, errors.New("late")}} {
			r.s.inbox <- unasked{m}
		}
		r.after(time.Minute)
		r.state(Ready)
		r.dialed(2)
		if len(r.moves) != before || len(r.lists) != lists || len(r.heard) != 0 || r.checks != 0 {
			t.Fatalf("moves %v, lists %v, heard %v, checks %d", r.moves[before:], r.lists[lists:], r.heard, r.checks)
		}
		r.ok(2)
	})
}

// unasked is a message that no worker of Run's sent.
type unasked struct{ message }

func (m unasked) apply(s *Supervisor) { s.workers++; m.message.apply(s) }

// TestReplay: a request is sent again only if it cannot have been acted on, or
// may be repeated; at most once; and a caller who cannot know hears so.
func TestReplay(t *testing.T) {
	for _, c := range []struct {
		name       string
		unsent     bool // the session says that nothing left
		idempotent bool
		deaths     int // sessions that die under the call
		sent       int // times that a server saw the request
		err        error
	}{
		{"sent", false, false, 1, 1, &OutcomeUnknownError{}},
		{"sent, idempotent", false, true, 1, 2, nil},
		{"sent twice, idempotent", false, true, 2, 2, &OutcomeUnknownError{}},
		{"unsent", true, false, 1, 2, nil},
		{"unsent twice", true, false, 2, 2, &ReconnectingError{}},
		{"unsent, idempotent", true, true, 1, 2, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := 0
			w := &world{call: func(_ context.Context, f *fake, req session.Request) (session.Reply, error) {
				if seen++; seen <= c.deaths {
					f.die(gone("killed"))
					return session.Reply{}, session.Failuref(c.unsent, "broken pipe")
				}
				return session.Reply{Result: []byte(`1`)}, nil
			}}
			scene(t, w, nil, func(r *rig) {
				_, err := r.try(CallOptions{Idempotent: c.idempotent})
				if fmt.Sprintf("%T", err) != fmt.Sprintf("%T", c.err) || seen != c.sent {
					t.Fatalf("%v after %d sendings, want %T after %d", err, seen, c.err, c.sent)
				}
				if st := r.s.Status(); st.Breaker.Failures != 0 {
					t.Fatalf("the session's death counts as %d failures of calls", st.Breaker.Failures)
				}
			})
		})
	}
}

// TestReplayThatIsNotSent: a request that may have been carried out, and could
// not be sent again, is not said to be unsent.
func TestReplayThatIsNotSent(t *testing.T) {
	for name, second := range map[string]error{
		"refused":    session.Failuref(true, "connection refused"),
		"no session": session.Failuref(true, "written to a dead session"),
	} {
		t.Run(name, func(t *testing.T) {
			seen := 0
			w := &world{call: func(_ context.Context, f *fake, _ session.Request) (session.Reply, error) {
				if seen++; seen == 1 {
					f.die(gone("killed"))
					return session.Reply{}, session.Failuref(false, "end of stream")
				}
				if name == "no session" {
					f.die(gone("killed again"))
				}
				return session.Reply{}, second
			}}
			scene(t, w, nil, func(r *rig) {
				_, err := r.try(CallOptions{Idempotent: true})
				want[*OutcomeUnknownError](t, err)
				if seen != 2 {
					t.Fatalf("%d sendings", seen)
				}
			})
		})
	}
}

// TestReplayRefusedAsTheCallerLeaves: nor is it if the caller gives up just when
// the second sending is refused, before it is known whether the session goes on.
// The refusal is true of the second sending alone: the first may have been
// carried out.
func TestReplayRefusedAsTheCallerLeaves(t *testing.T) {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	seen := 0
	w := &world{call: func(_ context.Context, f *fake, _ session.Request) (session.Reply, error) {
		if seen++; seen == 1 {
			f.die(gone("killed"))
			return session.Reply{}, session.Failuref(false, "end of stream")
		}
		time.AfterFunc(linger/2, leave)
		return session.Reply{}, session.Failuref(true, "connection refused")
	}}
	scene(t, w, nil, func(r *rig) {
		_, err := r.s.Call(ctx, request, CallOptions{Idempotent: true})
		want[*OutcomeUnknownError](t, err)
		if seen != 2 || ctx.Err() == nil {
			t.Fatalf("%d sendings; the caller: %v", seen, ctx.Err())
		}
	})
}

// TestReplayOnTheSameSession: a request that never left, on a session that a
// check then finds healthy, is sent again on it.
func TestReplayOnTheSameSession(t *testing.T) {
	seen := 0
	w := &world{call: func(context.Context, *fake, session.Request) (session.Reply, error) {
		if seen++; seen == 1 {
			return session.Reply{}, session.Failuref(true, "connection refused")
		}
		return session.Reply{Result: []byte(`1`)}, nil
	}}
	scene(t, w, nil, func(r *rig) {
		// A check that passes before the call waits for one is followed by another.
		if _, err := r.try(CallOptions{}); err != nil || seen != 2 || r.checks < 1 || r.checks > 2 {
			t.Fatalf("%v after %d sendings and %d checks", err, seen, r.checks)
		}
		r.dialed(1)
	})
}

// TestOneServersTroubleIsItsOwn: servers whose start hangs do not keep others
// from starting, even where only one may start at a time.
func TestOneServersTroubleIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := NewGate(1)
		var rigs []*rig
		for i := range 4 {
			w := &world{}
			if i < 3 {
				w.dial = func(ctx context.Context, _ int) error { <-ctx.Done(); return context.Cause(ctx) }
			}
			rigs = append(rigs, run(t, w, func(c *Config) { c.Gate = gate }))
		}
		healthy := rigs[3]
		healthy.after(3 * gateHold)
		healthy.state(Ready)
		for range 100 {
			at := time.Now()
			healthy.ok(1)
			if d := time.Since(at); d > 0 {
				t.Fatalf("a call took %s", d)
			}
			healthy.after(time.Second)
		}
		for _, r := range rigs {
			r.finish()
		}
	})
}

// TestWhatAPersonMustMendIsNotRetried: such an error parks at once, names its
// reason, is not retried on a timer or by calls, and an operator, or the
// authorization, brings the server back.
func TestWhatAPersonMustMendIsNotRetried(t *testing.T) {
	for _, c := range []struct {
		end   *session.End
		timed bool // retried on a timer
	}{
		{&session.End{Class: session.Auth, Message: "401 and nothing to refresh"}, false},
		{&session.End{Class: session.ConfigFault, Message: "no such command: npxx"}, false},
		{&session.End{Class: session.Protocol, Message: "an HTML page"}, true},
	} {
		for _, later := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s later=%v", c.end.Class, later), func(t *testing.T) {
				w := &world{}
				fail := func(context.Context, int) error { return c.end }
				if !later {
					w.dial = fail
				}
				scene(t, w, nil, func(r *rig) {
					if later {
						r.set(func(w *world) { w.dial = fail })
						r.latest().die(c.end)
					}
					r.after(59 * time.Second)
					r.state(Parked)
					r.dialed(1)
					if reason := r.s.Status().Reason; reason != c.end.Message {
						t.Fatalf("reason %q", reason)
					}
					if c.timed {
						r.after(20 * time.Second)
						r.dialed(2)
						return
					}
					for range 100 {
						_, err := r.try(CallOptions{})
						if c.end.Class == session.Auth {
							want[*AuthNeededError](t, err)
						} else {
							want[*UnavailableError](t, err)
						}
						if !strings.Contains(err.Error(), c.end.Message) {
							t.Fatalf("error %q does not give the reason", err)
						}
						r.after(time.Hour)
					}
					r.dialed(1)
					r.set(func(w *world) { w.dial = nil })
					if c.end.Class == session.Auth {
						r.s.Authorized()
					} else {
						r.s.Reconnect("alice")
					}
					r.after(0)
					r.state(Ready)
					r.ok(2)
				})
			})
		}
	}
}
