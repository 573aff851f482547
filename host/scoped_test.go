package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

// scopedClient is a client session that answers with its name.
type scopedClient struct {
	id, version string

	mu    sync.Mutex
	heard []string
	asked []string
}

func (c *scopedClient) ID() string              { return c.id }
func (c *scopedClient) ProtocolVersion() string { return c.version }
func (c *scopedClient) Info() json.RawMessage   { return json.RawMessage(`{"name":"` + c.id + `"}`) }
func (c *scopedClient) Capabilities() json.RawMessage {
	return json.RawMessage(`{"roots":{},"elicitation":{}}`)
}
func (c *scopedClient) Notify(method string, _ json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = append(c.heard, method)
}
func (c *scopedClient) Request(_ context.Context, method string, _ json.RawMessage) (session.Reply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, method)
	return session.Reply{Result: json.RawMessage(`{"from":"` + c.id + `"}`)}, nil
}

func (c *scopedClient) took() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := append(c.heard, c.asked...)
	c.heard, c.asked = nil, nil
	return all
}

// scopedSession is one client's session with the fake server.
type scopedSession struct {
	w       *scopedWorld
	client  string
	handler session.Handler
	done    chan struct{}
	once    sync.Once

	mu      sync.Mutex
	got     []string
	answers []string
	next    uint64
}

func (s *scopedSession) Info() session.Info {
	return session.Info{ProtocolVersion: "2025-11-25", Capabilities: json.RawMessage(`{"resources":{"subscribe":true}}`)}
}
func (s *scopedSession) Call(ctx context.Context, req session.Request) (session.Reply, error) {
	s.mu.Lock()
	s.next++
	id := s.next
	s.got = append(s.got, req.Method)
	s.mu.Unlock()
	if req.Started != nil {
		req.Started(id)
	}
	if s.w.serve != nil {
		return s.w.serve(ctx, s, id, req)
	}
	return session.Reply{Result: json.RawMessage(`{"session":"` + s.client + `"}`)}, nil
}
func (s *scopedSession) Notify(method string, _ json.RawMessage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, method)
	return nil
}
func (s *scopedSession) Answer(_ json.RawMessage, r session.Reply) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, string(r.Result)+fmt.Sprint(r.Error))
	return nil
}
func (s *scopedSession) Healthy(context.Context) error { return nil }
func (s *scopedSession) Done() <-chan struct{}         { return s.done }
func (s *scopedSession) End() *session.End {
	select {
	case <-s.done:
		return &session.End{Class: session.Closed, Message: "closed"}
	default:
		return nil
	}
}
func (s *scopedSession) Close(context.Context) { s.once.Do(func() { close(s.done) }) }

func (s *scopedSession) open() bool { return s.End() == nil }

type scopedWorld struct {
	t       *testing.T
	connect time.Duration // how long a session takes to come up
	member  *member
	p       *scopes
	r       *relay.Relay
	end     context.CancelFunc
	get     func(server string, c relay.Client) (relay.Server, bool)
	wg      sync.WaitGroup
	serve   func(ctx context.Context, s *scopedSession, id uint64, req session.Request) (session.Reply, error)

	mu       sync.Mutex
	sessions []*scopedSession
	changed  []supervisor.Lists
}

type scopedTransport struct {
	w      *scopedWorld
	client string
}

func (t scopedTransport) Connect(_ context.Context, h session.Handler) (session.Session, error) {
	time.Sleep(t.w.connect) // the clock is synctest's
	s := &scopedSession{w: t.w, client: t.client, handler: h, done: make(chan struct{})}
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.w.sessions = append(t.w.sessions, s)
	return s, nil
}

type sharedServer struct{}

func (sharedServer) Session() session.Session    { return nil }
func (sharedServer) Await(context.Context) error { return nil }
func (sharedServer) Call(context.Context, session.Request, supervisor.CallOptions) (session.Reply, error) {
	return session.Reply{Result: json.RawMessage(`{"session":"shared"}`)}, nil
}

func newScopedWorld(t *testing.T, idle time.Duration, most int) *scopedWorld {
	w := &scopedWorld{t: t, member: &member{}}
	cat := catalog.New()
	if err := cat.SetServers([]catalog.Server{{Name: "s"}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.end = cancel
	w.p = &scopes{
		scope: func(server string, c relay.Client) relay.Scope { return w.r.Scope(server, c) },
		changed: func(_ string, which supervisor.Lists) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.changed = append(w.changed, which)
		},
		log: hclog.NewNullLogger(), life: ctx, running: &w.wg,
	}
	w.get = func(server string, c relay.Client) (relay.Server, bool) {
		return w.p.get(server, c, func(_ *own, h session.Handler, l supervisor.Lister) ownSettings {
			return ownSettings{
				sup: supervisor.New(supervisor.Config{
					Name: server, Transport: scopedTransport{w, c.ID()}, Handler: h, Lister: l, Logger: hclog.NewNullLogger(),
					Timeouts: supervisor.Timeouts{CallWait: 10 * time.Second},
				}),
				of: w.member, idleTimeout: idle, maxSessions: most,
			}
		})
	}
	w.r = relay.New(relay.Config{
		Catalog: cat, FirstList: -1,
		Private: func(string) bool { return true },
		Left:    w.p.left,
		Lookup: func(server string, c relay.Client) (relay.Server, bool) {
			if c == nil {
				return sharedServer{}, true
			}
			return w.get(server, c)
		},
	})
	return w
}

// lookup is what the relay does just before a call.
func (w *scopedWorld) lookup(c relay.Client) relay.Server {
	srv, _ := w.get("s", c)
	return srv
}

// up returns how many sessions are up that are looked up, of the member that is
// there now.
func (w *scopedWorld) up() int {
	if c := w.p.crowds()[w.member]; c != nil {
		return c.up
	}
	return 0
}

func (w *scopedWorld) stop() {
	w.p.close()
	w.end()
	w.wg.Wait()
	w.r.Close()
}

func (w *scopedWorld) endpoint() relay.Endpoint {
	e, ok := w.r.Endpoint("s")
	if !ok {
		w.t.Fatal("no endpoint")
	}
	return e
}

func (w *scopedWorld) call(c *scopedClient, method, params string) string {
	reply := w.endpoint().Handle(context.Background(), relay.Call{Client: c, Stream: c, Method: method, Params: json.RawMessage(params)})
	if reply.Error != nil {
		return reply.Error.Error()
	}
	return string(reply.Result)
}

func (w *scopedWorld) of(client string) (all []*scopedSession) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sessions {
		if s.client == client {
			all = append(all, s)
		}
	}
	return all
}

func old(id string) *scopedClient { return &scopedClient{id: id, version: "2025-11-25"} }

// Each client session has a session of its own, which ends with it; stateless
// clients use the shared one.
func TestSessionsOfClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newScopedWorld(t, time.Hour, 10)
		defer w.stop()
		a, b := old("a"), old("b")
		e := w.endpoint()
		for _, c := range []*scopedClient{a, b} {
			e.Join(c)
			for range 2 {
				if got := w.call(c, "tools/call", `{"name":"x"}`); got != `{"session":"`+c.id+`"}` {
					t.Errorf("%s got %s", c.id, got)
				}
			}
		}
		if got := w.call(&scopedClient{id: "m", version: "2026-07-28"}, "tools/call", `{"name":"x"}`); got != `{"session":"shared"}` {
			t.Errorf("a stateless client got %s", got)
		}
		if len(w.of("a")) != 1 || len(w.of("b")) != 1 || w.up() != 2 {
			t.Fatalf("%d sessions", w.up())
		}
		e.Leave(a)
		synctest.Wait()
		if w.of("a")[0].open() || !w.of("b")[0].open() {
			t.Error("the wrong session has ended")
		}
		if got := w.call(a, "tools/call", `{"name":"x"}`); !strings.Contains(got, "session has ended") || len(w.of("a")) != 1 {
			t.Errorf("a client that is gone got %s", got)
		}
	})
}

// Whatever a client's own session asks or says goes to that client, in a call
// or not, and roots pass.
func TestOwnSessionsAskTheirClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newScopedWorld(t, time.Hour, 10)
		defer w.stop()
		a, b := old("a"), old("b")
		e := w.endpoint()
		for _, c := range []*scopedClient{a, b} {
			e.Join(c)
			w.call(c, "tools/call", `{"name":"x"}`)
		}
		s := w.of("a")[0]
		for i, method := range []string{"roots/list", "elicitation/create"} {
			s.handler.Request(session.ServerRequest{ID: json.RawMessage(fmt.Sprint(i)), Method: method})
			synctest.Wait()
		}
		s.handler.Request(session.ServerRequest{ID: json.RawMessage("9"), Method: "sampling/createMessage"})
		s.handler.Notification(session.Notification{Method: "notifications/message", Params: json.RawMessage(`{"level":"error"}`)})
		s.handler.Notification(session.Notification{Method: "notifications/of/its/own"})
		synctest.Wait()
		if got := a.took(); !slices.Equal(got, []string{"notifications/message", "notifications/of/its/own", "roots/list", "elicitation/create"}) {
			t.Errorf("a heard %q", got)
		}
		if got := b.took(); len(got) != 0 {
			t.Errorf("b heard %q", got)
		}
		if got := s.answers; len(got) != 3 || !strings.Contains(got[0], `{"from":"a"}`) || !strings.Contains(got[2], "not declared sampling") {
			t.Errorf("answers %q", got)
		}
		e.Notification(context.Background(), a, "notifications/roots/list_changed", nil)
		if got := s.got[len(s.got)-1]; got != "notifications/roots/list_changed" {
			t.Errorf("the session was told %s last", got)
		}
		s.handler.Notification(session.Notification{Method: "notifications/tools/list_changed"})
		time.Sleep(time.Second)
		synctest.Wait()
		if len(w.changed) != 1 || w.changed[0] != supervisor.Tools {
			t.Errorf("changes %v", w.changed)
		}
	})
}

// Sessions end when nobody uses them, and not before: a call in flight and a
// subscription are uses.
func TestOwnSessionsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newScopedWorld(t, time.Minute, 10)
		defer w.stop()
		release := make(chan struct{})
		w.serve = func(_ context.Context, _ *scopedSession, _ uint64, req session.Request) (session.Reply, error) {
			if req.Method == "tools/call" {
				<-release
			}
			return session.Reply{Result: json.RawMessage(`{}`)}, nil
		}
		a := old("a")
		w.endpoint().Join(a)
		done := make(chan string)
		go func() { done <- w.call(a, "tools/call", `{"name":"x"}`) }()
		time.Sleep(3 * time.Minute)
		if !w.of("a")[0].open() {
			t.Fatal("ended under a call")
		}
		release <- struct{}{}
		<-done
		time.Sleep(59 * time.Second)
		if !w.of("a")[0].open() {
			t.Fatal("ended early")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.of("a")[0].open() {
			t.Fatal("did not end")
		}
		if got := w.call(a, "resources/subscribe", `{"uri":"u:1"}`); got != `{}` {
			t.Fatalf("subscribe: %s", got)
		}
		time.Sleep(5 * time.Minute)
		s := w.of("a")[1]
		if !s.open() {
			t.Error("ended under a subscription")
		}
		s.handler.Notification(session.Notification{Method: "notifications/resources/updated", Params: json.RawMessage(`{"uri":"u:1"}`)})
		if got := a.took(); !slices.Equal(got, []string{"notifications/resources/updated"}) {
			t.Errorf("heard %q", got)
		}
		w.call(a, "resources/unsubscribe", `{"uri":"u:1"}`)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if s.open() {
			t.Error("did not end without the subscription")
		}
	})
}

// There are at most so many: one that is idle gives way, but none that is used.
func TestOwnSessionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newScopedWorld(t, time.Hour, 2)
		defer w.stop()
		block := make(chan struct{})
		w.serve = func(_ context.Context, s *scopedSession, _ uint64, _ session.Request) (session.Reply, error) {
			if s.client != "b" {
				<-block
			}
			return session.Reply{Result: json.RawMessage(`{"session":"` + s.client + `"}`)}, nil
		}
		clients := map[string]*scopedClient{}
		for _, id := range []string{"a", "b", "c", "d"} {
			clients[id] = old(id)
			w.endpoint().Join(clients[id])
		}
		done := make(chan string, 2)
		go func() { done <- w.call(clients["a"], "tools/call", `{"name":"x"}`) }()
		synctest.Wait()
		w.call(clients["b"], "tools/call", `{"name":"x"}`)
		time.Sleep(2 * settling)
		go func() { done <- w.call(clients["c"], "tools/call", `{"name":"x"}`) }()
		synctest.Wait()
		if w.of("b")[0].open() || !w.of("a")[0].open() || len(w.of("c")) != 1 {
			t.Error("the idle session has not given way")
		}
		got := w.call(clients["d"], "tools/call", `{"name":"x"}`)
		if !strings.Contains(got, "raise its max_sessions") || !strings.Contains(got, `"reason":"busy"`) || !strings.Contains(got, `"sent":false`) {
			t.Errorf("the client too many got %s", got)
		}
		close(block)
		<-done
		<-done
	})
}

// A changed server's sessions finish their calls, while new calls go to new
// sessions; what both say is told apart.
func TestDroppedSessionsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newScopedWorld(t, time.Hour, 10)
		defer w.stop()
		release := make(chan struct{})
		w.serve = func(ctx context.Context, s *scopedSession, id uint64, req session.Request) (session.Reply, error) {
			if strings.Contains(string(req.Params), "waits") {
				select {
				case <-release:
				case <-ctx.Done():
					return session.Reply{}, context.Cause(ctx)
				}
			}
			s.handler.Notification(session.Notification{Method: "notifications/of/its/own", Related: id})
			return session.Reply{Result: json.RawMessage(`{}`)}, nil
		}
		a := old("a")
		w.endpoint().Join(a)
		done := make(chan string, 2)
		go func() { done <- w.call(a, "tools/call", `{"name":"waits"}`) }()
		synctest.Wait()
		w.p.drop("s", nil, time.Minute, errors.New("changed"))
		w.call(a, "tools/call", `{"name":"quick"}`)
		all := w.of("a")
		if len(all) != 2 || !all[0].open() || !all[1].open() || w.up() != 1 {
			t.Fatalf("%d sessions", len(all))
		}
		release <- struct{}{}
		if got := <-done; got != `{}` {
			t.Errorf("the old session's call: %s", got)
		}
		time.Sleep(settling)
		synctest.Wait()
		if all[0].open() || !all[1].open() {
			t.Error("the wrong session has ended")
		}
		if got := a.took(); len(got) != 2 {
			t.Errorf("heard %q", got)
		}
		go func() { done <- w.call(a, "tools/call", `{"name":"waits"}`) }()
		synctest.Wait()
		w.p.drop("s", nil, time.Minute, errors.New("changed"))
		time.Sleep(2 * time.Minute)
		if got := <-done; !strings.Contains(got, "isError") || all[1].open() {
			t.Errorf("after the patience: %s", got)
		}
	})
}

// A session that was looked up serves the call that wanted it, though it is
// dropped before that begins or while it waits for the server, and however many
// there are; and nobody's session gives way while a call waits for it to start.
func TestDroppedSessionsServeLateCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newScopedWorld(t, time.Hour, 1)
		defer w.stop()
		w.connect = 3 * time.Second
		a := old("a")
		w.endpoint().Join(a)
		done := make(chan string)
		go func() { done <- w.call(a, "tools/call", `{"name":"x"}`) }()
		time.Sleep(2 * settling)
		if _, busy := w.lookup(old("b")).(crowded); !busy {
			t.Error("a session that is about to serve a call has given way")
		}
		late := w.lookup(a)
		w.p.drop("s", nil, time.Minute, errors.New("changed"))
		if got := <-done; got != `{"session":"a"}` {
			t.Errorf("the call that waited for the session: %s", got)
		}
		for range 2 {
			if _, err := late.Call(t.Context(), session.Request{Method: "tools/call"}, supervisor.CallOptions{}); err != nil {
				t.Errorf("a late call: %v", err)
			}
		}
		time.Sleep(settling)
		synctest.Wait()
		if w.of("a")[0].open() {
			t.Error("the session has not ended")
		}
	})
}

// A drop leaves alone what has the new configuration already.
func TestDropLeavesNewSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newScopedWorld(t, time.Hour, 10)
		defer w.stop()
		was, now := &member{}, &member{}
		for c, m := range map[*scopedClient]*member{old("a"): was, old("b"): now} {
			w.member = m
			w.endpoint().Join(c)
			w.call(c, "tools/call", `{"name":"x"}`)
		}
		w.member = now
		w.p.drop("s", now, time.Minute, errors.New("changed"))
		time.Sleep(settling)
		synctest.Wait()
		if w.of("a")[0].open() || !w.of("b")[0].open() || w.up() != 1 {
			t.Error("the wrong session has ended")
		}
	})
}
