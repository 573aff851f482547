package relay

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-host/hermes-host/host/session"
)

// Subscriptions of resources at a server of 2026-07-28 are open requests: one
// per resource, whoever subscribes, over the server's sessions, and begun anew
// if the server ends one.
func TestSubscriptionsAtNewServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := full("a")
		s.info.ProtocolVersion = "2026-07-28"
		end := make(chan struct{})
		open := map[string]int{}
		s.serve = func(ctx context.Context, req session.Request) (session.Reply, error) {
			s.mu.Lock()
			open[string(req.Params)]++
			s.mu.Unlock()
			defer func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				open[string(req.Params)]--
			}()
			select {
			case <-ctx.Done():
				return session.Reply{}, context.Cause(ctx)
			case <-end:
				return session.Reply{Result: []byte(`{"resultType":"complete"}`)}, nil
			}
		}
		opened := func() int {
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			return open[`{"notifications":{"resourceSubscriptions":["a:1"]}}`]
		}
		w := newWorld(t, s)
		e := w.endpoint("a")
		x, y := &client{id: "x"}, &client{id: "y", version: "2026-07-28"}
		for _, c := range []*client{x, y, x} {
			e.Join(c)
			if got := text(e.Handle(t.Context(), c.call("resources/subscribe", `{"uri":"a:1"}`))); got != "{}" {
				t.Fatalf("subscribe: %s", got)
			}
		}
		if opened() != 1 {
			t.Fatalf("%d requests are open", opened())
		}
		h := w.r.Handler("a")
		h.Notification(note("notifications/subscriptions/acknowledged", `{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}`, 7))
		h.Notification(note("notifications/resources/updated", `{"uri":"a:1","_meta":{"io.modelcontextprotocol/subscriptionId":7}}`, 7))
		for _, c := range []*client{x, y} {
			if got := c.take(); !slices.Equal(got, []string{`notifications/resources/updated {"uri":"a:1"}`}) {
				t.Errorf("%s heard %q", c.id, got)
			}
		}
		end <- struct{}{}
		if opened() != 0 {
			t.Error("listens again at once")
		}
		time.Sleep(listenPause)
		if opened() != 1 {
			t.Error("does not listen again")
		}
		if got := text(e.Handle(t.Context(), x.call("resources/unsubscribe", `{"uri":"a:1"}`))); got != "{}" || opened() != 1 {
			t.Errorf("unsubscribe: %s, %d open", got, opened())
		}
		e.Leave(y)
		if opened() != 0 {
			t.Error("listens for nobody")
		}
		for _, got := range s.requests() {
			if !strings.HasPrefix(got, "subscriptions/listen ") {
				t.Errorf("the server saw %s", got)
			}
		}
		s.info.Capabilities = []byte(`{"resources":{}}`)
		if got := text(e.Handle(t.Context(), x.call("resources/subscribe", `{"uri":"a:1"}`))); !strings.Contains(got, "-32601") {
			t.Errorf("without subscriptions: %s", got)
		}
		w.r.Close()
	})
}
