package takeover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A side is one supervisor, and its session: the tool that it lists and what it
// answers calls with are its name.
type side struct {
	*Turn
	session.Session
	name   string
	during func() // while lists are fetched
	hold   chan struct{}
	held   chan struct{}
	await  func() error
}

// newCatalog returns a catalog with the server "x".
func newCatalog(t *testing.T) *catalog.Catalog {
	t.Helper()
	c := catalog.New()
	if err := c.SetServers([]catalog.Server{{Name: "x"}}); err != nil {
		t.Fatal(err)
	}
	return c
}

func newSide(name string, c *catalog.Catalog) *side {
	s := &side{name: name}
	handle, _ := c.Handle("x")
	s.Turn = New(0, handle)
	s.Begin(supervisorOf{s})
	return s
}

// supervisorOf is a side as its supervisor.
type supervisorOf struct{ *side }

func (s supervisorOf) Call(ctx context.Context, req session.Request, opt supervisor.CallOptions) (session.Reply, error) {
	return s.side.Call(ctx, req, opt)
}

func (s supervisorOf) Await(context.Context) error { return s.await() }

func (s supervisorOf) Session() session.Session { return sessionOf(s) }

func (s *side) Info() session.Info {
	return session.Info{ProtocolVersion: "2025-11-25", Capabilities: json.RawMessage(`{"tools":{}}`)}
}

// sessionOf is a side as its session; as itself it makes calls by way of its
// turn.
type sessionOf struct{ *side }

func (s sessionOf) Call(context.Context, session.Request) (session.Reply, error) {
	if s.during != nil {
		s.during()
	}
	return session.Reply{Result: fmt.Appendf(nil, `{"tools":[{"name":%q,"inputSchema":{"type":"object"}}]}`, s.name)}, nil
}

// lists has the side list what it has.
func (s *side) lists(t *testing.T) {
	t.Helper()
	if err := s.List(t.Context(), sessionOf{s}, supervisor.AllLists); err != nil {
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

// shown returns whose tool clients see, "" if none.
func shown(t *testing.T, c *catalog.Catalog) string {
	t.Helper()
	e, _ := c.Endpoint("x")
	raw, err := e.View().List(catalog.Tools, nil, "2025-11-25")
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(raw, &list); err != nil || len(list.Tools) > 1 {
		t.Fatalf("the list is %s: %v", raw, err)
	}
	if len(list.Tools) == 0 {
		return ""
	}
	return list.Tools[0].Name
}

// TestTakeover: what clients see while one supervisor comes up beside another,
// and after it has taken over, whatever both have said before, meanwhile and after.
func TestTakeover(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(t *testing.T, old, next *side) // next is staged, old has listed
		staged string                              // is shown then
		after  func(t *testing.T, old, next *side)
		has    string // is shown in the end
	}{
		{"ready", func(t *testing.T, _, next *side) { next.lists(t) }, "old", nil, "next"},
		{"not up yet", nil, "old", nil, "old"},
		{"not up yet, and lists later", nil, "old", func(t *testing.T, _, next *side) { next.lists(t) }, "next"},
		{"parked", func(_ *testing.T, _, next *side) { next.Withdraw() }, "old", nil, ""},
		{"ready, then parked", func(t *testing.T, _, next *side) { next.lists(t); next.Withdraw() }, "old", nil, ""},
		{"parked, then ready", func(t *testing.T, _, next *side) { next.Withdraw(); next.lists(t) }, "old", nil, "next"},
		{"ready, and the predecessor parks", func(t *testing.T, old, next *side) { next.lists(t); old.Withdraw() }, "old", nil, "next"},
		{"not up yet, and the predecessor parks", func(_ *testing.T, old, _ *side) { old.Withdraw() }, "", nil, ""},
		{"ready, and the predecessor lists again", func(t *testing.T, old, next *side) { next.lists(t); old.lists(t) }, "old", nil, "next"},
		{"the predecessor ends", func(t *testing.T, _, next *side) { next.lists(t) }, "old", func(_ *testing.T, old, _ *side) { old.Withdraw() }, "next"},
		{"the successor parks later", func(t *testing.T, _, next *side) { next.lists(t) }, "old", func(_ *testing.T, _, next *side) { next.Withdraw() }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			on := newCatalog(t)
			old, next := newSide("old", on), newSide("next", on)
			old.lists(t)
			next.Stage(old.Turn)
			if c.before != nil {
				c.before(t, old, next)
			}
			if got := shown(t, on); got != c.staged {
				t.Errorf("before the takeover %q is shown, want %q", got, c.staged)
			}
			old.Retire(next.Turn)
			next.Promote()
			if c.after != nil {
				c.after(t, old, next)
			}
			if got := shown(t, on); got != c.has {
				t.Errorf("%q is shown, want %q", got, c.has)
			}
		})
	}
}

// TestAbandoned: what clients see when the takeover does not come about is what the
// one that was there has said last, and it can be taken over from again.
func TestAbandoned(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(t *testing.T, old, next *side)
		has    string
	}{
		{"ready", func(t *testing.T, _, next *side) { next.lists(t) }, "old"},
		{"parked", func(_ *testing.T, _, next *side) { next.Withdraw() }, "old"},
		{"ready, and the predecessor parks", func(t *testing.T, old, next *side) { next.lists(t); old.Withdraw() }, ""},
		{"ready, and the predecessor parks and comes back", func(t *testing.T, old, next *side) { next.lists(t); old.Withdraw(); old.lists(t) }, "old"},
	} {
		t.Run(c.name, func(t *testing.T) {
			on := newCatalog(t)
			old, next, third := newSide("old", on), newSide("next", on), newSide("third", on)
			old.lists(t)
			next.Stage(old.Turn)
			c.before(t, old, next)
			next.Abandon(old.Turn)
			if err := next.List(t.Context(), sessionOf{next}, supervisor.AllLists); err == nil {
				t.Error("one that was abandoned lists")
			}
			next.Withdraw()
			if got := shown(t, on); got != c.has {
				t.Errorf("%q is shown, want %q", got, c.has)
			}
			if got := old.calls(t); got != "old" {
				t.Errorf("%s answers", got)
			}
			old.Withdraw()
			if got := shown(t, on); got != "" {
				t.Errorf("after the withdrawal %q is shown", got)
			}
			third.Stage(old.Turn)
			third.lists(t)
			old.Retire(third.Turn)
			third.Promote()
			if got := shown(t, on); got != "third" {
				t.Errorf("%q is shown, want that of another successor", got)
			}
		})
	}
}

// TestLateLists: a list that a supervisor was fetching when another took over
// comes to nothing, and so does any that it would fetch later.
func TestLateLists(t *testing.T) {
	for _, parked := range []bool{false, true} {
		on := newCatalog(t)
		old, next := newSide("old", on), newSide("next", on)
		next.Stage(old.Turn)
		want := "next"
		old.during = func() {
			if parked {
				next.Withdraw()
				want = ""
			} else {
				next.lists(t)
			}
			old.Retire(next.Turn)
			next.Promote()
		}
		for _, when := range []string{"meanwhile", "later"} {
			if err := old.List(t.Context(), sessionOf{old}, supervisor.AllLists); err == nil {
				t.Errorf("a supervisor lists although another has taken over %s", when)
			}
			if got := shown(t, on); got != want {
				t.Errorf("%s: %q is shown, want %q", when, got, want)
			}
		}
	}
}

// TestCallsAreHandedOver: a supervisor goes on with the calls that it has, and
// gives all others to its successor, and that to its own.
func TestCallsAreHandedOver(t *testing.T) {
	on := newCatalog(t)
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

// TestWaitingIsHandedOver: who waits for a session that will not come, since
// another supervisor has taken over, gets that one's.
func TestWaitingIsHandedOver(t *testing.T) {
	on, ended := newCatalog(t), errors.New("ended")
	old, next := newSide("old", on), newSide("next", on)
	old.await = func() error {
		old.Retire(next.Turn)
		return ended
	}
	waited := false
	next.await = func() error { waited = true; return nil }
	if err := old.Turn.Await(t.Context()); err != nil || !waited {
		t.Errorf("got %v; the successor was waited for: %t", err, waited)
	}
	if s := old.Turn.Session().(sessionOf); s.name != "next" {
		t.Errorf("the session is that of %s", s.name)
	}
	next.await = func() error { return ended }
	next.Retire(nil)
	if err := old.Turn.Await(t.Context()); !errors.Is(err, ended) {
		t.Errorf("the last of all says %v", err)
	}
}
