package relay

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

// plug is a transport to an upserver that can be pulled.
type plug struct {
	s       *upserver
	pulled  atomic.Bool
	handler session.Handler
	live    *plugged
}

type plugged struct {
	asSession
	done chan struct{}
}

func (p *plug) Connect(_ context.Context, h session.Handler) (session.Session, error) {
	if p.pulled.Load() {
		return nil, &session.End{Message: "connection refused", Retryable: true}
	}
	p.handler = h
	p.live = &plugged{asSession{p.s}, make(chan struct{})}
	return p.live, nil
}

func (p *plugged) Done() <-chan struct{} { return p.done }
func (p *plugged) End() *session.End {
	select {
	case <-p.done:
		return &session.End{Message: "the process was killed", Retryable: true}
	default:
		return nil
	}
}
func (p *plugged) Close(context.Context) {
	select {
	case <-p.done:
	default:
		close(p.done)
	}
}

// introducing is a lister as the host makes it.
type introducing struct {
	*catalog.Handle
	r *Relay
}

func (i introducing) List(ctx context.Context, s session.Session, which supervisor.Lists) error {
	i.r.Introduce("a", s)
	return i.Handle.List(ctx, s, which)
}

// TestWholeLifeOfAServer runs relay and catalog with a real supervisor: the
// server dies and comes back, parks and is revived, changes its lists, and
// clients hear of all that once and in order.
func TestWholeLifeOfAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := full("a")
		p := &plug{s: s}
		cat := catalog.New()
		if err := cat.SetServers([]catalog.Server{{Name: "a"}}); err != nil {
			t.Fatal(err)
		}
		var sup *supervisor.Supervisor
		r := New(Config{Catalog: cat, Lookup: func(string, Client) (Server, bool) { return sup, true }})
		defer r.Close()
		handle, _ := cat.Handle("a")
		sup = supervisor.New(supervisor.Config{
			Name: "a", Transport: p, Handler: r.Handler("a"), Lister: introducing{handle, r}, Jitter: func() float64 { return 0.5 },
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- sup.Run(ctx) }()

		e, _ := r.Endpoint("")
		c := &client{id: "c", caps: `{}`}
		e.Join(c)
		call := func() string { return text(e.Handle(t.Context(), c.call("tools/call", `{"name":"a__put"}`))) }
		wait := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		wait(time.Second)
		if got := c.take(); len(got) != 3 {
			t.Errorf("at the start: %q", got)
		}
		if got := text(e.Handle(t.Context(), c.call("resources/subscribe", `{"uri":"a:1"}`))); got != "{}" {
			t.Error(got)
		}

		// It dies between calls: the next one works, and nobody hears of it.
		p.live.Close(t.Context())
		if got := call(); got != "{}" {
			t.Errorf("after a death: %s", got)
		}
		wait(time.Second)
		if got := c.take(); got != nil {
			t.Errorf("of a death that was mended clients heard %q", got)
		}
		if n := strings.Count(strings.Join(s.requests(), "\n"), "resources/subscribe"); n != 2 {
			t.Errorf("%d subscriptions upstream; the new session has to hear of the one there is", n)
		}

		// It asks for roots in the moment of its start.
		p.handler.Request(asked("9", "roots/list", 0))
		<-s.answer
		if got := s.answered("9"); got.Error == nil || got.Error.Code != -32601 {
			t.Errorf("roots: %s", text(got))
		}

		// A burst of list_changed costs two lists at most.
		s.mu.Lock()
		s.got = nil
		s.lists = full("a").lists
		s.lists["tools/list"] = `{"tools":[{"name":"put","inputSchema":{"type":"object"}},{"name":"new","inputSchema":{"type":"object"}}]}`
		s.mu.Unlock()
		for range 200 {
			p.handler.Notification(note("notifications/tools/list_changed", "", 0))
		}
		wait(10 * time.Second)
		if got := c.take(); !slices.Equal(got, []string{"notifications/tools/list_changed"}) {
			t.Errorf("of the burst clients heard %q", got)
		}
		if n := len(s.got); n < 1 || n > 2 {
			t.Errorf("the burst cost %d lists", n)
		}

		// It stays away: parked, its entries leave, calls say so.
		p.pulled.Store(true)
		p.live.Close(t.Context())
		wait(40 * time.Second)
		if st := sup.Status(); st.State != supervisor.Parked {
			t.Fatalf("it is %v", st.State)
		}
		if got := c.take(); len(got) != 3 {
			t.Errorf("of the park clients heard %q", got)
		}
		if got := call(); !strings.Contains(got, `"isError":true`) || !strings.Contains(got, "try again") {
			t.Errorf("parked: %s", got)
		}
		if got := text(e.Handle(t.Context(), c.call("tools/list", ""))); got != `{"tools":[]}` {
			t.Errorf("parked: %s", got)
		}

		// And it comes back by itself.
		p.pulled.Store(false)
		wait(6 * time.Minute)
		if got := c.take(); len(got) != 3 {
			t.Errorf("of the revival clients heard %q", got)
		}
		if got := call(); got != "{}" {
			t.Errorf("revived: %s", got)
		}
		var list struct{ Tools []any }
		if err := json.Unmarshal(e.Handle(t.Context(), c.call("tools/list", "")).Result, &list); err != nil || len(list.Tools) != 2 {
			t.Errorf("revived: %v, %v", list, err)
		}
		e.Leave(c)
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
