package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestOperatorReconnects: a parked server that nothing would wake for an hour
// re-enters the transport on an operator's word, and calls pass at once. A
// session that lives is replaced.
func TestOperatorReconnects(t *testing.T) {
	t.Parallel()
	over(t, numbers{}, func(t *testing.T, w *world) {
		w.server.set(down)
		from := w.mark()
		w.server.kill()
		from = w.awaitState(from, "target", "parked")
		w.server.set(well)
		w.want("breaker open", "write", "of a parked server")
		w.operator("reconnect", "target")
		from = w.awaitState(from, "target", "ready")
		w.want("", "write", "after the operator's reconnect")

		sessions := w.server.sessions()
		w.operator("reconnect", "--all")
		w.awaitState(from, "target", "ready")
		w.want("", "write", "after another reconnect")
		if got := w.server.sessions() - sessions; got != 1 {
			t.Errorf("%d new sessions, want 1", got)
		}
	})
}

// TestAuthorizationNeededAtTheStart: a server that wants authorization from the
// first moment on keeps the host from nothing. It shows what it waits for, and the
// host is ready without it.
func TestAuthorizationNeededAtTheStart(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"http", "sse"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			locked := startScripted(t, kind)
			locked.set(unauth)
			start := time.Now()
			host := run(t, locked.block("target", numbers{}.String())+demoServer("good"), "good")
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("the start took %v", took)
			}
			parked, _ := host.await(0, "the server to be parked", func(l line) bool { return l.Server == "target" && l.State == "parked" })
			if !strings.Contains(parked.Error, "401") {
				t.Errorf("parked with the error %q", parked.Error)
			}
			if status := host.operator("status", "target"); !strings.Contains(status, "authorization") {
				t.Errorf("the status does not say what it waits for:\n%s", status)
			}
			res, err := http.Get(strings.TrimSuffix(host.url, "/mcp") + "/readyz")
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != http.StatusOK {
				t.Errorf("readyz answers %s", res.Status)
			}
			session := host.connect("", nil)
			if got := callText(t, session, "good__echo", map[string]any{"text": "on"}); got != "on" {
				t.Errorf("the other server answered %q", got)
			}
			_, _, before := locked.counts()
			result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "target__write"})
			if err != nil || !result.IsError || !strings.Contains(result.Content[0].(*mcp.TextContent).Text, "authorization") {
				t.Errorf("a call of it: %+v, %v", result, err)
			}
			if _, _, now := locked.counts(); now != before {
				t.Errorf("a call caused %d requests", now-before)
			}
		})
	}
}

// TestAuthorizationNeeded: a server that answers 401 is parked as such at once.
// No timer and no call dials it. A successful reconnect after the authorization
// is mended clears the breaker, even if the call that is then tried again
// fails.
func TestAuthorizationNeeded(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"http", "sse"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, kind, numbers{base: "500ms", budget: 10, revive: "1s"})
			w.open()
			w.server.set(down)
			from := w.mark()
			w.server.kill()
			from = w.awaitState(from, "target", "reconnecting")
			w.server.set(unauth)
			parked, from := w.await(from, "the server to be parked", func(l line) bool { return l.Server == "target" && l.State == "parked" })
			if !strings.Contains(parked.Error, "401") {
				t.Errorf("parked with the error %q", parked.Error)
			}
			var status struct {
				Servers []struct {
					Name, State string
					Authorize   bool
					NextAttempt *time.Time
				}
			}
			if text := w.operator("status", "-o", "json"); json.Unmarshal([]byte(text), &status) != nil || len(status.Servers) != 1 {
				t.Fatalf("the status is %s", text)
			}
			if s := status.Servers[0]; s.State != "parked" || !s.Authorize || s.NextAttempt != nil {
				t.Errorf("the status is %+v", s)
			}

			_, _, wire := w.server.counts()
			for range 3 {
				if o := w.want("authorization needed", "write", "of a server that wants authorization"); o.Sent {
					t.Error("the error says that the call was sent")
				}
			}
			w.pass(2500 * time.Millisecond) // the revive timer would have struck
			if _, _, now := w.server.counts(); now != wire {
				t.Errorf("%d requests reached a server that waits for authorization", now-wire)
			}

			w.server.set(well)
			w.operator("reconnect", "target")
			w.awaitState(from, "target", "ready")
			w.server.set(silent)
			w.want("timeout", "write", "once authorized")
			w.server.set(well)
			w.want("", "write", "after one failure")
		})
	}
}
