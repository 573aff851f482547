package supervisor

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/breaker"
	"github.com/hermes-host/hermes-host/host/session"
)

// TestMachine: every event in every state leads where the table says, or is
// logged as a bug and changes nothing. From every state there is a way to
// Stopped, and from all but Disabled and Stopped one to Ready.
func TestMachine(t *testing.T) {
	for from := Connecting; from <= Disabled; from++ {
		for e := arrived; e <= shutdown; e++ {
			var out bytes.Buffer
			var told []Transition
			s := New(Config{
				Name: "x", Transport: &world{}, Logger: hclog.New(&hclog.LoggerOptions{Output: &out}),
				OnTransition: func(tr Transition) { told = append(told, tr) },
			})
			s.state = from
			to, valid := machine[from][e]
			if !valid {
				to = from
			}
			if got := s.fire(e, "test", nil); got != valid || s.state != to || len(told) == 1 != valid {
				t.Errorf("%s in %s: %v, then %s, told %v", e, from, got, s.state, told)
			}
			if bug := strings.Contains(out.String(), "bug"); bug == valid {
				t.Errorf("%s in %s: logged %q", e, from, out.String())
			}
		}
		if !leads(from, Stopped) || leads(from, Ready) != (from != Disabled && from != Stopped) {
			t.Errorf("there is no way out of %s, or one too many", from)
		}
	}
}

func leads(from, to State) bool {
	seen := []State{from}
	for i := 0; i < len(seen); i++ {
		for _, next := range reachable(seen[i]) {
			if !slices.Contains(seen, next) {
				seen = append(seen, next)
			}
		}
	}
	return slices.Contains(seen, to)
}

// TestOutcomes: what became of a request, what it tells the breaker, and
// whether it may be sent again if it is not, or is, idempotent.
func TestOutcomes(t *testing.T) {
	other := errors.New("a session that breaks the contract")
	fail := func(r session.Reason, unsent bool) error {
		return &session.Failure{Reason: r, Message: "m", Undelivered: unsent}
	}
	for _, c := range []struct {
		name       string
		err        error
		caller     bool // has given up
		limit      bool // the host's limit has passed
		dies       time.Duration
		want       ending
		outcome    breaker.Outcome
		safe, idem bool
	}{
		{"an answer", nil, false, false, -1, answered, breaker.Success, false, false},
		{"the caller gave up", context.Canceled, true, false, -1, cancelled, breaker.Neutral, false, false},
		{"the caller gave up and the session died", fail(session.Connection, true), true, false, 0, cancelled, breaker.Neutral, false, false},
		{"the limit", errCallTimeout, false, true, -1, timedOut, breaker.Failure, false, false},
		{"broken pipe", fail(session.Connection, true), false, false, -1, failUnsent, breaker.Failure, true, true},
		{"end of file", fail(session.Connection, false), false, false, -1, failSent, breaker.Failure, false, true},
		{"broken pipe of the dead", fail(session.Connection, true), false, false, 0, lostUnsent, breaker.Neutral, true, true},
		{"end of file of the dying", fail(session.Connection, false), false, false, linger / 2, lostSent, breaker.Neutral, false, true},
		{"death after the linger", fail(session.Connection, false), false, false, 2 * linger, failSent, breaker.Failure, false, true},
		{"session lost, 404", fail(session.SessionLost, true), false, false, linger / 2, lostUnsent, breaker.Neutral, true, true},
		{"502", fail(session.HTTPStatus, false), false, false, -1, failSent, breaker.Failure, false, true},
		{"503 before the server", fail(session.HTTPStatus, true), false, false, -1, failUnsent, breaker.Failure, true, true},
		{"401", fail(session.NeedsAuth, true), false, false, -1, noAuth, breaker.Neutral, false, false},
		{"too large", fail(session.Oversize, true), false, false, -1, local, breaker.Neutral, false, false},
		{"no JSON", fail(session.Invalid, false), false, false, -1, local, breaker.Neutral, false, false},
		{"unknown error", other, false, false, -1, failSent, breaker.Failure, false, true},
		{"unknown error of the dead", other, false, false, 0, lostSent, breaker.Neutral, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{w: &world{start: time.Now()}, done: make(chan struct{})}
				l := &live{sess: f}
				l.ctx, l.cancel = context.WithCancelCause(t.Context())
				defer l.cancel(nil)
				caller, leave := context.WithCancel(t.Context())
				call, cancel := context.WithCancelCause(caller)
				defer cancel(nil)
				defer leave()
				if c.caller {
					leave()
				}
				if c.limit {
					cancel(errCallTimeout)
				}
				switch {
				case c.dies == 0:
					f.die(gone("dead"))
				case c.dies > 0:
					time.AfterFunc(c.dies, func() { f.die(gone("dead")) })
				}
				got := classify(caller, call, l, c.err)
				if got != c.want || rulings[got].outcome != c.outcome || got.again(false) != c.safe || got.again(true) != c.idem {
					t.Fatalf("ending %d, %s, again %v, %v", got, rulings[got].outcome, got.again(false), got.again(true))
				}
				<-time.After(time.Second)
			})
		})
	}
}

// TestMailbox: one signal of each kind, the later one last, with what both say.
func TestMailbox(t *testing.T) {
	var m mailbox
	m.init()
	for range 100 {
		m.post(reconnect{"a"})
		m.post(stale{2, Tools})
		m.post(stale{2, Prompts})
		m.post(stale{1, Resources})
		m.post(demand{7})
		m.post(demand{3})
		m.post(suspect{5})
		m.post(suspect{4})
		m.post(authorized{})
		m.post(parkOrder{"b"})
		m.post(reconnect{"c"})
	}
	want := []message{stale{2, Tools | Prompts}, demand{7}, suspect{5}, authorized{}, parkOrder{"b"}, reconnect{"c"}}
	if got := m.take(); !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	if m.post(stale{1, Tools}); !slices.Equal(m.take(), []message{stale{1, Tools}}) {
		t.Fatal("mail is kept after take")
	}
	m.post(stale{1, Tools})
	if m.post(stale{2, Prompts}); !slices.Equal(m.take(), []message{stale{2, Prompts}}) {
		t.Fatal("the lists of an old session are fetched from the new one")
	}
}

// TestErrorTexts: each says which server, what happened and what to do.
func TestErrorTexts(t *testing.T) {
	cause := errors.New("connection refused")
	for want, err := range map[string]error{
		`server "x" is reconnecting (connection refused); the request was not sent; try again in 4s`:                                                    &ReconnectingError{"x", Reconnecting, 4200 * time.Millisecond, cause},
		`server "x" is starting; the request was not sent; try again in a few seconds`:                                                                  &ReconnectingError{"x", Connecting, 0, nil},
		`server "x" is down (connection refused); the request was not sent; try again in 1m3s`:                                                          &ReconnectingError{"x", Parked, 63 * time.Second, cause},
		`server "x" does not work at present (connection refused); the request was not sent; try again in 1s`:                                           &OpenError{"x", time.Millisecond, cause},
		`server "x" gave no answer to tools/call (connection refused); the outcome is unknown: it may have been carried out; check before trying again`: &OutcomeUnknownError{"x", "tools/call", false, cause},
		`server "x" gave no answer to tools/call (connection refused); the outcome is unknown: it is safe to try again`:                                 &OutcomeUnknownError{"x", "tools/call", true, cause},
		`server "x" did not answer tools/call within 5m0s and was told to cancel it; the outcome is unknown: it may have been carried out`:              &TimeoutError{"x", "tools/call", 5 * time.Minute},
		`server "x" needs authorization (connection refused); a person must authorize it, then try again`:                                               &AuthNeededError{"x", cause},
		`server "x" is disabled in the host's configuration`:                                                                                            &UnavailableError{Server: "x", State: Disabled},
		`server "x" is shut down`: &UnavailableError{Server: "x", State: Stopped},
		`server "x" cannot work as it is configured: no such command; its configuration must be changed`: &UnavailableError{"x", Parked, Misconfigured, "no such command"},
		`server "x" is out of service (maintenance); an operator must reconnect it`:                      &UnavailableError{"x", Parked, ByOperator, "maintenance"},
		`server "x": tools/call failed: 70 MiB`:                                                          &RefusedError{"x", "tools/call", &session.Failure{Message: "70 MiB"}},
	} {
		if err.Error() != want {
			t.Errorf("\n got %s\nwant %s", err, want)
		}
		if u := errors.Unwrap(err); u != nil && u != cause && u.Error() != "70 MiB" {
			t.Errorf("%T wraps %v", err, u)
		}
	}
}

// TestEndOf: every failure of an attempt becomes an end with a message.
func TestEndOf(t *testing.T) {
	for _, c := range []struct {
		err       error
		class     session.Class
		retryable bool
		message   string
	}{
		{errors.New("boom"), session.Gone, true, "listing: boom"},
		{&session.End{Class: session.Auth, Message: "401"}, session.Auth, false, "401"},
		{&session.End{Class: session.Protocol}, session.Protocol, false, "listing failed without a reason (protocol)"},
		{&session.Failure{Reason: session.NeedsAuth, Message: "403"}, session.Auth, false, "listing: 403"},
		{&session.Failure{Reason: session.Oversize, Message: "big"}, session.Gone, true, "listing: big"},
	} {
		if end := endOf("listing", c.err); end.Class != c.class || end.Retryable != c.retryable || end.Message != c.message {
			t.Errorf("%v became %+v", c.err, end)
		}
	}
}

// TestGate: no more than so many at a time; a place is given back by leaving,
// by time, and not by one who gave up waiting.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(2)
		one, _ := g.enter(t.Context())
		_, _ = g.enter(t.Context())
		ctx, cancel := context.WithTimeoutCause(t.Context(), gateHold/2, errors.New("gave up"))
		defer cancel()
		if _, err := g.enter(ctx); err == nil || err.Error() != "gave up" {
			t.Fatal(err)
		}
		one()
		one()
		at := time.Now()
		for range 3 {
			if _, err := g.enter(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if d := time.Since(at); d != gateHold {
			t.Fatalf("waited %s", d)
		}
		<-time.After(2 * gateHold)
		if n := len(g.slots); n != 0 {
			t.Fatalf("%d places are lost", n)
		}
	})
}

// reachable returns the states to which a single event leads.
func reachable(from State) (to []State) {
	for _, s := range machine[from] {
		to = append(to, s)
	}
	return to
}
