package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"github.com/hermes-host/hermes-host/host/admin"
)

// TestHungServer stops the process of a server, as a debugger or a deadlock
// would, while clients call it that give up long before the host does. Whatever
// their patience is, and although one call or another is always in flight, the
// server is replaced, and the calls that follow are answered.
func TestHungServer(t *testing.T) {
	for _, c := range []struct {
		name     string
		patience time.Duration
	}{{"less patience than a check", 300 * time.Millisecond}, {"more patience than a check", 2500 * time.Millisecond}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			host := run(t, strings.Replace(demoServer("target"), "\n}\n", `
  timeouts {
    health = "1s"
    close  = "1s"
  }
}
`, 1), "target")
			server := host.find(t, "demo-server")
			sessions := []*mcp.ClientSession{host.connect("", nil), host.connect("", nil)}
			for _, session := range sessions {
				callText(t, session, "target__echo", map[string]any{"text": "before"})
			}
			if err := unix.PidfdSendSignal(server.fd, unix.SIGSTOP, nil, 0); err != nil {
				t.Fatal(err)
			}
			from := host.mark()
			// Silence, a check, the calls that there are by then, another check,
			// the end of the process; and some for a busy machine.
			late := time.Now().Add(1*time.Second + 1*time.Second + c.patience + 1*time.Second + 1*time.Second + 10*time.Second)
			var callers sync.WaitGroup
			for n, session := range sessions {
				callers.Go(func() {
					if n > 0 { // so that the ends of the calls don't coincide
						<-time.After(c.patience / 2)
					}
					for time.Now().Before(late) {
						ctx, cancel := context.WithTimeout(t.Context(), c.patience)
						at := time.Now()
						res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "target__echo", Arguments: map[string]any{"text": "again"}})
						cancel()
						if err == nil && !res.IsError {
							return
						}
						if time.Since(at) < 100*time.Millisecond { // refused
							<-time.After(100*time.Millisecond - time.Since(at))
						}
					}
					t.Error("the server has not come back")
				})
			}
			callers.Wait()
			host.awaitState(from, "target", "ready")
			if !server.ended(t, time.Now().Add(patience)) {
				t.Error("the process that hung is still there")
			}
			var target admin.Server
			if text := host.operator("status", "-o", "json", "target"); json.Unmarshal([]byte(text), &target) != nil ||
				target.Breaker.State != "closed" || !strings.Contains(target.LastError, "no sign of life") || target.Trouble != nil {
				t.Errorf("the status is %s", text)
			}
			if got, want := strings.Join(host.changes("target"), ", "), "connecting -> ready, ready -> reconnecting, reconnecting -> ready"; got != want {
				t.Errorf("the events are %s, want %s", got, want)
			}
		})
	}
}

// TestBusyServerKeepsItsCall: a server that answers nothing at all, not even a
// check, while it is at one call, does not lose that call when other callers
// give up theirs. Those that follow are refused at once, and answered once the
// server has said something.
func TestBusyServerKeepsItsCall(t *testing.T) {
	t.Parallel()
	host := run(t, strings.Replace(demoServer("target"), "\n}\n", `
  timeouts {
    health = "500ms"
  }
}
`, 1), "target")
	server := host.find(t, "demo-server")
	session, other := host.connect("", nil), host.connect("", nil)
	callText(t, session, "target__echo", map[string]any{"text": "before"})
	if err := unix.PidfdSendSignal(server.fd, unix.SIGSTOP, nil, 0); err != nil {
		t.Fatal(err)
	}
	var long sync.WaitGroup
	long.Go(func() {
		if got := callText(t, session, "target__echo", map[string]any{"text": "long"}); got != "long" {
			t.Errorf("the long call is answered %q", got)
		}
	})
	from := host.mark()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if res, err := other.CallTool(ctx, &mcp.CallToolParams{Name: "target__echo", Arguments: map[string]any{"text": "short"}}); err == nil {
		t.Fatalf("a stopped server answered %+v", res)
	}
	_, from = host.await(from, "the session to be mute", func(l line) bool { return l.Server == "target" && l.Message == "server in trouble" })
	res, err := other.CallTool(t.Context(), &mcp.CallToolParams{Name: "target__echo", Arguments: map[string]any{"text": "refused"}})
	if err != nil || !res.IsError {
		t.Fatalf("a call to a mute server: %+v, %v", res, err)
	}
	if text := res.Content[0].(*mcp.TextContent).Text; !strings.Contains(text, "no sign of life") || !strings.Contains(text, "not sent") {
		t.Errorf("it is refused with %q", text)
	}
	var target admin.Server
	if text := host.operator("status", "-o", "json", "target"); json.Unmarshal([]byte(text), &target) != nil ||
		target.State != "ready" || target.Trouble == nil || target.Trouble.Kind != "mute" || target.Breaker.State != "open" {
		t.Errorf("the status is %s", text)
	}
	if err := unix.PidfdSendSignal(server.fd, unix.SIGCONT, nil, 0); err != nil {
		t.Fatal(err)
	}
	long.Wait()
	host.await(from, "the session to be well", func(l line) bool { return l.Server == "target" && l.Message == "server well again" })
	if got := callText(t, other, "target__echo", map[string]any{"text": "after"}); got != "after" {
		t.Errorf("after that echo answered %q", got)
	}
	if got, want := strings.Join(host.changes("target"), ", "), "connecting -> ready"; got != want {
		t.Errorf("the events are %s, want %s", got, want)
	}
}

// TestLiveSessionIsRefused: a session whose requests are refused from some time
// on says so in status and events, until the next that is accepted.
func TestLiveSessionIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "http", numbers{})
	state := func() (target admin.Server) {
		t.Helper()
		if text := w.operator("status", "-o", "json", "target"); json.Unmarshal([]byte(text), &target) != nil {
			t.Fatalf("the status is %s", text)
		}
		return target
	}
	w.want("", "read", "before")
	from := w.mark()
	w.server.set(unauth)
	for range 3 {
		w.want("authorization needed", "write", "with a token that is not valid any more")
	}
	_, from = w.await(from, "a line about it", func(l line) bool { return l.Message == "server in trouble" && strings.Contains(l.Error, "401") })
	now := state()
	if now.State != "ready" || !now.Authorize || now.Trouble == nil || now.Trouble.Kind != "authorization" || !strings.Contains(now.LastError, "401") {
		t.Errorf("the status is %+v", now)
	}
	w.server.set(well)
	w.want("", "write", "with a token that is valid again")
	w.await(from, "a line about its end", func(l line) bool { return l.Message == "server well again" })
	if now := state(); now.Authorize || now.Trouble != nil || now.Starts != 1 {
		t.Errorf("the status is %+v", now)
	}
	if got := strings.Count(w.operator("events", "-o", "json", "-n", "all", "target"), "\n"); got != 3 {
		t.Errorf("there are %d events, want one of the start, one of the refusal and one of its end", got)
	}
}
