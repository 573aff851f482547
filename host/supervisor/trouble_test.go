package supervisor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/host/session"
)

// told is what a rig's supervisor tells without a change of state.
type told struct {
	notes []Transition
	log   strings.Builder
}

func (n *told) hear(w *world) func(*Config) {
	return func(c *Config) {
		c.OnAttempt = func(t Transition) { w.set(func(*world) { n.notes = append(n.notes, t) }) }
		c.Logger = hclog.New(&hclog.LoggerOptions{Output: &n.log, Level: hclog.Info})
	}
}

// lines counts the lines of the log with a text.
func (n *told) lines(text string) int { return strings.Count(n.log.String(), text) }

// TestTroubleOfALiveSession: calls that are refused, or answered by something
// that is no MCP, show in the status until the next that is answered, or the
// next session; one event and one line tell of the beginning, and of the end.
func TestTroubleOfALiveSession(t *testing.T) {
	for _, c := range []struct {
		reason session.Reason
		kind   TroubleKind
	}{{session.NeedsAuth, Refused}, {session.Invalid, Garbled}} {
		t.Run(c.kind.String(), func(t *testing.T) {
			fail := answer(session.Reply{}, &session.Failure{Reason: c.reason, Message: "seen"})
			w, n := &world{call: fail}, &told{}
			scene(t, w, n.hear(w), func(r *rig) {
				r.after(time.Second)
				at := time.Now()
				for range 20 {
					if _, err := r.try(CallOptions{}); err == nil {
						t.Fatal("no error")
					}
					r.after(time.Second)
				}
				st := r.s.Status()
				if st.State != Ready || st.Trouble.Kind != c.kind || !st.Trouble.Since.Equal(at) || st.Trouble.Text == "" ||
					st.LastError == "" || time.Since(st.LastErrorAt) > time.Second || st.Breaker.Failures != 0 {
					t.Fatalf("%+v", st)
				}
				if len(n.notes) != 1 || n.notes[0].Repeated || n.notes[0].Reason == "" || n.lines("in trouble") != 1 {
					t.Fatalf("told %+v\n%s", n.notes, n.log.String())
				}
				r.set(func(w *world) { w.call = nil })
				r.ok(1)
				r.after(0)
				if st := r.s.Status(); st.Trouble.Kind != NoTrouble || st.NeedsAuthorization {
					t.Fatalf("%+v", st)
				}
				if len(n.notes) != 2 || n.lines("well again") != 1 {
					t.Fatalf("told %+v\n%s", n.notes, n.log.String())
				}

				// Back after a while, it is news again. A new session ends it, too.
				r.after(11 * time.Minute)
				r.set(func(w *world) { w.call = fail })
				_, _ = r.try(CallOptions{})
				r.after(0)
				if len(n.notes) != 3 || r.s.Status().Trouble.Kind != c.kind {
					t.Fatalf("told %+v", n.notes)
				}
				r.s.Reconnect("a person")
				r.after(0)
				if st := r.s.Status(); st.Trouble.Kind != NoTrouble || st.NeedsAuthorization || st.Generation != 2 {
					t.Fatalf("%+v", st)
				}
			})
		})
	}
}

// TestOneToolIsRefused: a tool that is refused among others that work is told
// once, not with each call.
func TestOneToolIsRefused(t *testing.T) {
	w, n := &world{}, &told{}
	scene(t, w, n.hear(w), func(r *rig) {
		for range 100 {
			r.set(func(w *world) {
				w.call = answer(session.Reply{}, &session.Failure{Reason: session.NeedsAuth, Message: "403"})
			})
			_, err := r.try(CallOptions{})
			want[*AuthNeededError](t, err)
			r.after(0)
			if r.s.Status().Trouble.Kind != Refused {
				t.Fatal("no trouble")
			}
			r.set(func(w *world) { w.call = nil })
			r.ok(1)
			r.after(time.Minute)
			if r.s.Status().Trouble.Kind != NoTrouble {
				t.Fatal("trouble")
			}
		}
		if lines := n.lines("trouble"); lines != 1 {
			t.Errorf("%d lines:\n%s", lines, n.log.String())
		}
		news := 0
		for _, note := range n.notes {
			if !note.Repeated {
				news++
			}
		}
		if news != 2 {
			t.Errorf("%d of %d are news", news, len(n.notes))
		}
	})
}

// TestRefusedCheck: a server that refuses a check for want of an authorization
// is there. Its session is not replaced, which would park it.
func TestRefusedCheck(t *testing.T) {
	w := &world{healthy: func(context.Context, *fake) error {
		return fmt.Errorf("ping: %w", &session.Failure{Reason: session.NeedsAuth, Message: "401", Undelivered: true})
	}}
	scene(t, w, func(c *Config) { c.KeepAlive = time.Minute }, func(r *rig) {
		r.after(61 * time.Second)
		r.state(Ready)
		if st := r.s.Status(); !st.NeedsAuthorization || st.Trouble.Kind != Refused {
			t.Fatalf("%+v", st)
		}
		r.set(func(w *world) { w.healthy = nil })
		r.after(time.Minute)
		if st := r.s.Status(); st.NeedsAuthorization || st.Trouble.Kind != NoTrouble {
			t.Fatalf("%+v", st)
		}
		r.dialed(1)
	})
}

// TestFailingCalls: the latest error is that of the latest call without an
// answer, and each reason is a line of the log, once.
func TestFailingCalls(t *testing.T) {
	w, n := &world{}, &told{}
	scene(t, w, n.hear(w), func(r *rig) {
		r.latest().die(gone("an earlier one"))
		r.after(time.Second)
		if st := r.s.Status(); st.LastError != "an earlier one" {
			t.Fatal(st.LastError)
		}
		for _, text := range []string{"500 A", "500 A", "500 B", "500 A"} {
			r.set(func(w *world) {
				w.call = answer(session.Reply{}, &session.Failure{Reason: session.HTTPStatus, Message: text})
			})
			_, _ = r.try(CallOptions{})
			r.after(time.Second)
			r.set(func(w *world) { w.call = nil })
			_, _ = r.try(CallOptions{})
			if st := r.s.Status(); st.LastError != text || time.Since(st.LastErrorAt) != time.Second {
				t.Fatalf("last error %q %s ago, want %q", st.LastError, time.Since(st.LastErrorAt), text)
			}
		}
		if n.lines("call failed") != 2 || n.lines("500 A") != 1 || n.lines("500 B") != 1 || len(n.notes) != 0 {
			t.Errorf("told %+v\n%s", n.notes, n.log.String())
		}
	})
}

// TestParkedSince: a parked server has been out of service since it parked
// first, whatever attempts to revive it there were.
func TestParkedSince(t *testing.T) {
	w := &world{dial: refuse("away")}
	scene(t, w, nil, func(r *rig) {
		r.after(time.Minute)
		r.state(Parked)
		first := r.s.Status()
		if !first.Since.Equal(first.Changed) {
			t.Fatalf("%+v", first)
		}
		r.after(time.Hour)
		r.s.Reconnect("a person") // with a full budget, in vain
		r.after(5 * time.Minute)
		r.state(Parked)
		later := r.s.Status()
		if !later.Since.Equal(first.Since) || time.Since(later.Changed) > 6*time.Minute || later.LastErrorAt.Before(later.Changed) {
			t.Fatalf("%+v", later)
		}
		r.set(func(w *world) { w.dial = nil })
		r.after(6 * time.Minute)
		r.state(Ready)
		r.s.Park("a person")
		r.after(0)
		if st := r.s.Status(); time.Since(st.Since) != 0 || !st.Since.Equal(st.Changed) {
			t.Fatalf("%+v", st)
		}
	})
}
