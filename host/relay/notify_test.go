package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/session"
)

func note(method, params string, related uint64) session.Notification {
	return session.Notification{Method: method, Params: json.RawMessage(params), Related: related}
}

// Two clients use the same ids and tokens; each gets its
// own answer and its own progress, before the answer and none after.
func TestProgressAndAnswersNeverMix(t *testing.T) {
	s := newServer("a", "x")
	w := newWorld(t, s)
	h := w.r.Handler("a")
	both := make(chan string, 2)
	var wait sync.WaitGroup
	wait.Add(2)
	s.serve = func(ctx context.Context, req session.Request) (session.Reply, error) {
		var p struct {
			Arguments struct{ Who string }
			Meta      struct{ ProgressToken json.RawMessage } `json:"_meta"`
		}
		if err := json.Unmarshal(req.Params, &p); err != nil {
			return session.Reply{}, err
		}
		wait.Done()
		wait.Wait() // both are in flight
		h.Notification(note("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":1,"message":%q}`, p.Meta.ProgressToken, p.Arguments.Who), 0))
		h.Notification(note("notifications/progress", `{"progressToken":999,"progress":1}`, 0))
		h.Notification(note("notifications/progress", `{"progressToken":"t","progress":1}`, 0))
		both <- string(p.Meta.ProgressToken)
		return session.Reply{Result: json.RawMessage(`{"who":"` + p.Arguments.Who + `"}`)}, nil
	}
	var wg sync.WaitGroup
	for _, id := range []string{"one", "two"} {
		wg.Go(func() {
			c := &client{id: id}
			got := w.endpoint("").Handle(t.Context(), c.call("tools/call", `{"name":"a__x","arguments":{"who":"`+id+`"},"_meta":{"progressToken":"t"}}`))
			if string(got.Result) != `{"who":"`+id+`"}` {
				t.Errorf("%s got %s", id, text(got))
			}
			want := []string{`notifications/progress {"progressToken":"t","progress":1,"message":"` + id + `"}`}
			if got := c.streamed(); !slices.Equal(got, want) {
				t.Errorf("%s heard %q", id, got)
			}
			if got := c.take(); got != nil {
				t.Errorf("%s heard %q outside of its request", id, got)
			}
		})
	}
	wg.Wait()
	x, y := <-both, <-both
	if x == y {
		t.Errorf("both calls have the token %s upstream", x)
	}
	if l := w.r.link("a", nil); len(l.calls)+len(l.byID)+len(l.byToken) != 0 {
		t.Errorf("left behind: %+v", l)
	}
	h.Notification(note("notifications/progress", `{"progressToken":`+x+`,"progress":2}`, 0)) // late: goes nowhere
}

// The end of the caller's context is the end of the server's.
func TestCancelReachesTheServer(t *testing.T) {
	s := newServer("a", "x")
	w := newWorld(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	s.serve = func(ctx context.Context, _ session.Request) (session.Reply, error) {
		cancel()
		<-ctx.Done()
		return session.Reply{}, context.Cause(ctx)
	}
	if got := w.endpoint("").Handle(ctx, (&client{id: "c"}).call("tools/call", `{"name":"a__x"}`)); got.Error == nil {
		t.Errorf("got %s", text(got))
	}
}

// Changes reach those that they concern, a burst of
// them once, and nothing is said if nothing differs.
func TestListChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := full("a"), full("b")
		w := newWorld(t, a, b)
		all, one, other := &client{id: "all"}, &client{id: "one"}, &client{id: "other"}
		w.endpoint("").Join(all)
		w.endpoint("a").Join(one)
		w.endpoint("b").Join(other)
		settle := func() {
			time.Sleep(time.Second)
			synctest.Wait()
		}
		settle()
		for _, c := range []*client{all, one, other} {
			if got := c.take(); got != nil {
				t.Errorf("of what was there when it joined %s heard %q", c.id, got)
			}
		}
		h := w.r.Handler("a")
		for _, method := range []string{"tools", "prompts", "resources"} {
			h.Notification(note("notifications/"+method+"/list_changed", "", 0))
		}
		for range 200 {
			w.list(a)
		}
		settle()
		if got := all.take(); got != nil {
			t.Errorf("nothing differs, and clients heard %q", got)
		}
		for i := range 200 {
			a.lists["tools/list"] = fmt.Sprintf(`{"tools":[{"name":"t%d","inputSchema":{"type":"object"}}]}`, i)
			w.list(a)
		}
		settle()
		want := []string{"notifications/tools/list_changed"}
		if got := all.take(); !slices.Equal(got, want) {
			t.Errorf("the aggregate heard %q", got)
		}
		if got := one.take(); !slices.Equal(got, want) {
			t.Errorf("the server's own endpoint heard %q", got)
		}
		a.lists["prompts/list"] = `{"prompts":[]}`
		a.lists["resources/templates/list"] = `{"resourceTemplates":[]}`
		w.list(a)
		settle()
		if got := all.take(); !slices.Equal(got, []string{"notifications/prompts/list_changed", "notifications/resources/list_changed"}) {
			t.Errorf("the aggregate heard %q", got)
		}
		one.take()
		if err := w.cat.SetServers([]catalog.Server{{Name: "a", Prefix: new(string)}, {Name: "b"}}); err != nil {
			t.Fatal(err)
		}
		settle()
		if got := all.take(); !slices.Equal(got, want) {
			t.Errorf("after a reload the aggregate heard %q", got)
		}
		if got := other.take(); got != nil {
			t.Errorf("the other server's clients heard %q", got)
		}
		if got := one.take(); got != nil {
			t.Errorf("a prefix concerns the aggregate, and the server's own clients heard %q", got)
		}
		// One that has the list as it is needs no notice of how it became so.
		a.lists["tools/list"] = `{"tools":[]}`
		w.list(a)
		for _, method := range []string{"tools/list", "resources/list"} {
			w.endpoint("").Handle(t.Context(), all.call(method, ""))
		}
		settle()
		if got := all.take(); got != nil {
			t.Errorf("one that knows heard %q", got)
		}
		if got := one.take(); !slices.Equal(got, want) {
			t.Errorf("one that does not know heard %q", got)
		}
		w.endpoint("").Leave(all)
		w.list(b)
		handle, _ := w.cat.Handle("b")
		handle.Withdraw()
		settle()
		if got := all.take(); got != nil {
			t.Errorf("one that left heard %q", got)
		}
		if got := other.take(); len(got) != 3 {
			t.Errorf("of the withdrawal b's clients heard %q", got)
		}
		w.r.Close()
	})
}

func TestFirstListWaitsForServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newServer("slow", "x")
		cat := catalog.New()
		if err := cat.SetServers([]catalog.Server{{Name: "slow"}, {Name: "dead"}}); err != nil {
			t.Fatal(err)
		}
		r := New(Config{Catalog: cat, Lookup: func(string, Client) (Server, bool) { return slow, true }})
		defer r.Close()
		c := &client{id: "c"}
		start := time.Now()
		go func() {
			time.Sleep(time.Second)
			h, _ := cat.Handle("slow")
			if err := h.List(context.Background(), asSession{slow}, 7); err != nil {
				t.Error(err)
			}
		}()
		one, _ := r.Endpoint("slow")
		if got := text(one.Handle(t.Context(), c.call("tools/list", ""))); !strings.Contains(got, `"x"`) || time.Since(start) != time.Second {
			t.Errorf("after %v: %s", time.Since(start), got)
		}
		all, _ := r.Endpoint("")
		if got := text(all.Handle(t.Context(), c.call("tools/list", ""))); !strings.Contains(got, `"slow__x"`) || time.Since(start) != 2*time.Second {
			t.Errorf("after %v: %s", time.Since(start), got)
		}
		// The dead one has had its chance.
		all.Handle(t.Context(), c.call("tools/list", ""))
		if time.Since(start) != 2*time.Second {
			t.Errorf("a later list took until %v", time.Since(start))
		}
	})
}

func TestSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := full("a")
		w := newWorld(t, s, full("b"))
		synctest.Wait()
		e := w.endpoint("")
		x, y := &client{id: "x"}, &client{id: "y"}
		e.Join(x)
		e.Join(y)
		do := func(c *client, method string) {
			t.Helper()
			if got := e.Handle(t.Context(), c.call(method, `{"uri":"a:1"}`)); got.Error != nil {
				t.Errorf("%s: %s", method, text(got))
			}
		}
		updated := func() (bool, bool) {
			w.r.Handler("a").Notification(note("notifications/resources/updated", `{"uri":"a:1"}`, 0))
			return len(x.take()) == 1, len(y.take()) == 1
		}
		do(x, "resources/subscribe")
		do(y, "resources/subscribe")
		do(x, "resources/unsubscribe") // y still wants it
		if a, b := updated(); a || !b {
			t.Errorf("x heard %v, y %v", a, b)
		}
		do(x, "resources/subscribe")
		want := []string{`resources/subscribe {"uri":"a:1"}`, `resources/subscribe {"uri":"a:1"}`, `resources/subscribe {"uri":"a:1"}`}
		if got := s.requests(); !slices.Equal(got, want) {
			t.Errorf("the server saw %q", got)
		}
		// A new session hears of it again, once.
		next := full("a")
		w.ups["a"] = next
		w.list(next)
		w.list(next)
		synctest.Wait()
		if got := next.requests(); !slices.Equal(got, want[:1]) {
			t.Errorf("the new session saw %q", got)
		}
		e.Leave(x)
		e.Leave(x)
		do(y, "resources/unsubscribe")
		if a, b := updated(); a || b {
			t.Errorf("x heard %v, y %v", a, b)
		}
		do(y, "resources/subscribe")
		e.Leave(y)
		synctest.Wait()
		if got := next.requests(); len(got) != 4 || got[1] != `resources/unsubscribe {"uri":"a:1"}` || got[3] != got[1] {
			t.Errorf("the new session saw %q", got)
		}
		// Who has unsubscribed is known although no list has the URI any more.
		e.Join(y)
		do(y, "resources/subscribe")
		next.lists["resources/list"], next.lists["resources/templates/list"] = `{"resources":[]}`, `{"resourceTemplates":[]}`
		w.list(next)
		do(y, "resources/unsubscribe")
		if _, b := updated(); b {
			t.Error("y is still subscribed")
		}
		next.lists = full("a").lists
		w.list(next)
		// A refusal leaves nothing behind.
		next.serve = func(context.Context, session.Request) (session.Reply, error) {
			return session.Reply{}, session.Failuref(true, "boom")
		}
		e.Join(x)
		if got := e.Handle(t.Context(), x.call("resources/subscribe", `{"uri":"a:1"}`)); got.Error == nil {
			t.Error("a failed subscription succeeded")
		}
		if a, _ := updated(); a {
			t.Error("x hears of what it could not subscribe to")
		}
		w.r.Close()
	})
}

func TestLogMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer("a", "x")
		w := newWorld(t, s)
		synctest.Wait()
		h := w.r.Handler("a")
		loud, calm, plain, modern := &client{id: "loud"}, &client{id: "calm"}, &client{id: "plain"}, &client{id: "modern", version: catalog.Stateless}
		for _, c := range []*client{loud, calm, plain, modern} {
			w.endpoint("").Join(c)
		}
		say := func(level string, related uint64) {
			h.Notification(note("notifications/message", `{"level":"`+level+`","data":1}`, related))
		}
		counts := func() [4]int {
			return [4]int{len(loud.take()), len(calm.take()), len(plain.take()), len(modern.take())}
		}
		say("debug", 0)
		if got := counts(); got != [4]int{1, 1, 1, 0} {
			t.Errorf("nobody has asked for a level: %v", got)
		}
		set := func(c *client, level string) {
			if got := w.endpoint("").Handle(t.Context(), c.call("logging/setLevel", `{"level":"`+level+`"}`)); got.Error != nil {
				t.Error(text(got))
			}
			synctest.Wait()
		}
		set(calm, "error")
		set(loud, "debug")
		for level, want := range map[string][4]int{"debug": {1, 0, 0, 0}, "info": {1, 0, 1, 0}, "error": {1, 1, 1, 0}} {
			say(level, 0)
			if got := counts(); got != want {
				t.Errorf("%s reached %v, want %v", level, got, want)
			}
		}
		// With plain at info, error alone would have been too little for it.
		want := []string{`logging/setLevel {"level":"info"}`, `logging/setLevel {"level":"debug"}`}
		if got := s.requests(); !slices.Equal(got, want) {
			t.Errorf("the server saw %q", got)
		}
		// During a call, the caller alone hears; in the new era only if it asked.
		s.serve = func(context.Context, session.Request) (session.Reply, error) {
			say("warning", 0)
			say("debug", s.next.Load())
			return session.Reply{}, nil
		}
		for c, n := range map[*client]int{loud: 2, calm: 0, plain: 1, modern: 0} {
			w.endpoint("").Handle(t.Context(), c.call("tools/call", `{"name":"a__x"}`))
			if got := c.streamed(); len(got) != n {
				t.Errorf("%s heard %q during its call", c.id, got)
			}
		}
		w.endpoint("").Handle(t.Context(), modern.call("tools/call", `{"name":"a__x","_meta":{"io.modelcontextprotocol/logLevel":"info"}}`))
		if got := modern.streamed(); len(got) != 1 || counts() != [4]int{} {
			t.Errorf("modern heard %q during its call", got)
		}
		// Leaving takes the wish along, and a new session learns what is left.
		w.endpoint("").Leave(loud)
		synctest.Wait()
		if got := s.requests(); got[len(got)-1] != want[0] {
			t.Errorf("the server saw %q", got)
		}
		next := newServer("a", "x")
		w.ups["a"] = next
		w.list(next)
		synctest.Wait()
		if got := next.requests(); !slices.Equal(got, want[:1]) {
			t.Errorf("the new session saw %q", got)
		}
		// A server alone answers for itself.
		next.serve = func(context.Context, session.Request) (session.Reply, error) {
			return session.Reply{Result: json.RawMessage(`{"_meta":{"own":1}}`)}, nil
		}
		solo := &client{id: "solo"}
		w.endpoint("a").Join(solo)
		got := w.endpoint("a").Handle(t.Context(), solo.call("logging/setLevel", `{"level":"debug"}`))
		if text(got) != `{"_meta":{"own":1}}` || !slices.Contains(next.requests(), want[1]) {
			t.Errorf("got %s; the server saw %q", text(got), next.requests())
		}
		w.r.Close()
	})
}

// A client may be found gone in the moment it is told something.
func TestLeavingWhileBeingTold(t *testing.T) {
	s := newServer("a", "x")
	w := newWorld(t, s)
	e := w.endpoint("a")
	h := w.r.Handler("a")
	for _, n := range []session.Notification{
		note("notifications/message", `{"level":"error"}`, 0),
		note("notifications/future", `{}`, 0),
		note("notifications/elicitation/complete", `{}`, 0),
		note("notifications/resources/updated", `{"uri":"a:1"}`, 0),
	} {
		c := &client{id: "c"}
		c.told = func() { e.Leave(c) }
		e.Join(c)
		if got := e.Handle(t.Context(), c.call("resources/subscribe", `{"uri":"a:1"}`)); got.Error != nil {
			t.Fatal(text(got))
		}
		h.Notification(n)
		if got := c.take(); len(got) != 1 {
			t.Errorf("%s: heard %q", n.Method, got)
		}
		h.Notification(n)
		if got := c.take(); got != nil {
			t.Errorf("%s: after leaving heard %q", n.Method, got)
		}
	}
}

func TestOtherNotifications(t *testing.T) {
	s := newServer("a", "x")
	w := newWorld(t, s)
	all, one, caller := &client{id: "all"}, &client{id: "one"}, &client{id: "caller"}
	w.endpoint("").Join(all)
	w.endpoint("a").Join(one)
	h := w.r.Handler("a")
	h.Notification(note("notifications/future", `{"x":1}`, 0))
	if a, b := all.take(), one.take(); a != nil || !slices.Equal(b, []string{`notifications/future {"x":1}`}) {
		t.Errorf("the aggregate heard %q, the server's own endpoint %q", a, b)
	}
	s.serve = func(context.Context, session.Request) (session.Reply, error) {
		h.Notification(note("notifications/future", `{"x":2}`, s.next.Load()))
		return session.Reply{}, nil
	}
	w.endpoint("").Handle(t.Context(), caller.call("tools/call", `{"name":"a__x"}`))
	if got := caller.streamed(); !slices.Equal(got, []string{`notifications/future {"x":2}`}) || one.take() != nil {
		t.Errorf("the caller heard %q", got)
	}
	h.Notification(note("notifications/elicitation/complete", `{"elicitationId":"e"}`, 0))
	if a, b := all.take(), one.take(); len(a) != 1 || len(b) != 1 {
		t.Errorf("the aggregate heard %q, the server's own endpoint %q", a, b)
	}
}
