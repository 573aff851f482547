package takeover

import (
	"context"
	"encoding/json"
	"testing"

	"go.uber.org/goleak"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A shelf is the place in the catalog that both supervisors fill.
type shelf struct{ has string }

// A side is one supervisor: its lists go to a shelf under its name, its calls
// answer with it.
type side struct {
	*Turn
	name    string
	on      *shelf
	during  func() // while lists are fetched
	hold    chan struct{}
	held    chan struct{}
	refresh int
}

func newSide(name string, on *shelf) *side {
	s := &side{name: name, on: on}
	s.Turn = New(0, lister{s})
	s.Begin(s)
	return s
}

// lists has the side list what it has.
func (s *side) lists(t *testing.T) {
	t.Helper()
	if err := s.List(t.Context(), nil, supervisor.AllLists); err != nil {
		t.Fatal(err)
	}
}

// calls makes a call by way of the side, and returns who has answered.
func (s *side) calls(t *testing.T) string {
	t.Helper()
	reply, err := s.Turn.Call(t.Context(), session.Request{}, supervisor.CallOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(reply.Result)
}

func (s *side) Call(context.Context, session.Request, supervisor.CallOptions) (session.Reply, error) {
	if s.hold != nil {
		close(s.held)
		<-s.hold
	}
	return session.Reply{Result: json.RawMessage(s.name)}, nil
}

func (s *side) Refresh(supervisor.Lists) { s.refresh++ }

type lister struct{ s *side }

func (l lister) List(context.Context, session.Session, supervisor.Lists) error {
	if l.s.during != nil {
		l.s.during()
	}
	l.s.on.has = l.s.name
	return nil
}

func (l lister) Withdraw() { l.s.on.has = "" }

// TestTakeover: what the shelf has after one supervisor has taken over from
// another, whatever both have said before, meanwhile and after.
func TestTakeover(t *testing.T) {
	for _, c := range []struct {
		name      string
		before    func(t *testing.T, old, next *side) // next is staged, old has listed
		after     func(t *testing.T, old, next *side)
		has       string
		refreshes int // of the successor
	}{
		{"ready", func(t *testing.T, _, next *side) { next.lists(t) }, nil, "next", 0},
		{"not up yet", nil, nil, "old", 0},
		{"parked", func(_ *testing.T, _, next *side) { next.Withdraw() }, nil, "", 0},
		{"ready, then parked", func(t *testing.T, _, next *side) { next.lists(t); next.Withdraw() }, nil, "", 0},
		{"ready, and the predecessor parks", func(t *testing.T, old, next *side) { next.lists(t); old.Withdraw() }, nil, "next", 0},
		{"not up yet, and the predecessor parks", func(_ *testing.T, old, _ *side) { old.Withdraw() }, nil, "", 0},
		{"ready, and the predecessor lists again", func(t *testing.T, old, next *side) { next.lists(t); old.lists(t) }, nil, "old", 1},
		{"the predecessor ends", func(t *testing.T, _, next *side) { next.lists(t) }, func(_ *testing.T, old, _ *side) { old.Withdraw() }, "next", 0},
		{"the successor parks later", func(t *testing.T, _, next *side) { next.lists(t) }, func(_ *testing.T, _, next *side) { next.Withdraw() }, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			on := &shelf{}
			old, next := newSide("old", on), newSide("next", on)
			old.lists(t)
			next.Stage(old.Turn)
			if c.before != nil {
				c.before(t, old, next)
			}
			old.Retire(next.Turn)
			next.Promote()
			if c.after != nil {
				c.after(t, old, next)
			}
			if on.has != c.has || next.refresh != c.refreshes {
				t.Errorf("the shelf has %q after %d refreshes; want %q after %d", on.has, next.refresh, c.has, c.refreshes)
			}
		})
	}
}

// TestLateLists: a list that a supervisor was fetching when another took over
// comes after it. The successor lists again, or withdraws again.
func TestLateLists(t *testing.T) {
	for _, parked := range []bool{false, true} {
		on := &shelf{}
		old, next := newSide("old", on), newSide("next", on)
		next.Stage(old.Turn)
		old.during = func() {
			if parked {
				next.Withdraw()
			} else {
				next.lists(t)
			}
			old.Retire(next.Turn)
			next.Promote()
		}
		old.lists(t)
		if parked && (on.has != "" || next.refresh != 0) {
			t.Errorf("a parked server's shelf has %q after %d refreshes", on.has, next.refresh)
		}
		if !parked && next.refresh != 1 {
			t.Errorf("%d refreshes, want 1", next.refresh)
		}
		if err := old.List(t.Context(), nil, supervisor.AllLists); err == nil {
			t.Error("a supervisor lists although another has taken over")
		}
	}
}

// TestCallsAreHandedOver: a supervisor goes on with the calls that it has, and
// gives all others to its successor, and that to its own.
func TestCallsAreHandedOver(t *testing.T) {
	on := &shelf{}
	first, second, third := newSide("first", on), newSide("second", on), newSide("third", on)
	first.hold, first.held = make(chan struct{}), make(chan struct{})
	answer := make(chan string, 1)
	go func() { answer <- first.calls(t) }()
	<-first.held
	first.Retire(second.Turn)
	if got := first.calls(t); got != "second" {
		t.Errorf("%s answers, want the second", got)
	}
	second.Retire(third.Turn)
	<-second.Idle()
	if got := first.calls(t); got != "third" {
		t.Errorf("%s answers, want the third", got)
	}
	select {
	case <-first.Idle():
		t.Error("the first is idle, and has a call")
	default:
	}
	close(first.hold)
	if got := <-answer; got != "first" {
		t.Errorf("%s answers what the first had", got)
	}
	<-first.Idle()
	third.Retire(nil)
	if got := second.calls(t); got != "third" {
		t.Errorf("%s answers, want the third, which is the last", got)
	}
}
