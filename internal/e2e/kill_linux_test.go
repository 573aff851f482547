package e2e

import (
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"
)

// TestKill kills the server and the plugin of each transport with SIGKILL. The
// server goes through the same states either way, told by the same events and
// lines of the log; a caller notices nothing but the time, and the client's
// session goes on.
func TestKill(t *testing.T) {
	for _, transport := range []string{"stdio", "http", "sse"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			config := demoServer("target")
			var server *upstream
			if transport != "stdio" {
				server = startUpstream(t, transport)
				config = server.server("target")
			}
			host := run(t, config, "target")
			session := host.connect("", nil)
			if got := callText(t, session, "target__echo", map[string]any{"text": "before"}); got != "before" {
				t.Fatalf("echo answered %q", got)
			}

			recover := func(what string, kill func()) []string {
				t.Helper()
				from, events := host.mark(), len(host.changes("target"))
				kill()
				// The call may come before the host has seen the death.
				if got := callText(t, session, "target__echo", map[string]any{"text": what}); got != what {
					t.Errorf("after the death of the %s: echo answered %q", what, got)
				}
				host.awaitState(from, "target", "ready")
				return append(host.told(from, "target"), host.changes("target")[events:]...)
			}
			var afterServer, afterPlugin []string
			if transport == "stdio" {
				afterServer = recover("server", func() { host.find(t, "demo-server").kill(t) })
			} else {
				afterServer = recover("server", server.restart)
			}
			afterPlugin = recover("plugin", func() { host.find(t, "hermes-transport-"+transport).kill(t) })
			if !slices.Equal(afterServer, afterPlugin) {
				t.Errorf("after the death of the server: %q, of the plugin: %q", afterServer, afterPlugin)
			}
			want := []string{"warn: server reconnecting", "info: server ready", "ready -> reconnecting", "reconnecting -> ready"}
			if !slices.Equal(afterPlugin, want) {
				t.Errorf("the host told %q, want %q", afterPlugin, want)
			}
		})
	}
}

// told returns the lines of the log, from one on, about changes of a server's
// state.
func (h *runningHost) told(from int, server string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var told []string
	for _, l := range h.lines[from:] {
		if l.Server == server && l.transition() {
			told = append(told, l.Level+": "+l.Message)
		}
	}
	return told
}

// changes returns the events about changes of a server's state so far.
func (h *runningHost) changes(server string) []string {
	h.t.Helper()
	var changes []string
	for text := range strings.Lines(h.operator("events", "-o", "json", "-n", "all", server)) {
		var e struct{ From, To string }
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			h.t.Fatalf("event %s: %v", text, err)
		}
		if e.From != e.To { // else an attempt within one
			changes = append(changes, e.From+" -> "+e.To)
		}
	}
	return changes
}

// find returns the process below the host whose command line contains a text.
func (h *runningHost) find(t *testing.T, text string) process {
	t.Helper()
	for _, p := range descendants(t, h.cmd.Process.Pid) {
		if strings.Contains(commandLine(p.pid), text) {
			return p
		}
	}
	t.Fatalf("the host has no process %q", text)
	return process{}
}

// TestKillHost kills the host with SIGKILL: of all that it started nothing is
// left within 2 s, grandchildren included.
func TestKillHost(t *testing.T) {
	t.Parallel()
	// The shell stands between the plugin and the server, as npx does.
	config := demoServer("direct") + `
server "nested" {
  transport "stdio" {
    command = "sh"
    args    = ["-c", "sleep 1000 & ` + hermes + ` demo-server; true"]
  }
}
` + startUpstream(t, "http").server("web")
	host := run(t, config, "direct", "nested", "web")
	below := descendants(t, host.cmd.Process.Pid)
	names := map[string]int{}
	for _, p := range below {
		names[p.name]++
	}
	// Names are cut off after 15 characters.
	for name, least := range map[string]int{"hermes-transpor": 3, "hermes-host": 2, "sleep": 1, "sh": 1} {
		if names[name] < least {
			t.Errorf("%d processes %s, want %d: %v", names[name], name, least, below)
		}
	}
	if err := host.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	allEnded(t, below, 2*time.Second)
}

// TestStop ends the host in order: exit code 0 and nothing left.
func TestStop(t *testing.T) {
	t.Parallel()
	host := run(t, demoServer("one")+demoServer("two"), "one", "two")
	below := descendants(t, host.cmd.Process.Pid)
	if code := host.stop(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	allEnded(t, below, 0)
}

// TestSecondSignal ends at once a host whose server does not want to end.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	host := run(t, `
server "stubborn" {
  transport "stdio" {
    command = "sh"
    args    = ["-c", "trap '' TERM; `+hermes+` demo-server; while :; do sleep 1; done"]
  }
}
`, "stubborn")
	below := descendants(t, host.cmd.Process.Pid)
	from := host.mark()
	if err := host.cmd.Process.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	host.await(from, "the end to begin", func(l line) bool { return strings.Contains(l.Message, "second signal") })
	start := time.Now()
	if err := host.cmd.Process.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-host.done
	if took := time.Since(start); took > time.Second {
		t.Errorf("the second signal took %v", took)
	}
	status := host.cmd.ProcessState.Sys().(interface{ Signal() unix.Signal })
	if got := status.Signal(); got != unix.SIGINT {
		t.Errorf("ended by signal %v, want an interrupt (exit code 130 to a shell)", got)
	}
	allEnded(t, below, 2*time.Second)
}

// TestStdioEndsWithItsClient closes the input of `hermes-host stdio`: it ends,
// and everything that it started with it.
func TestStdioEndsWithItsClient(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(hermes, "stdio", "--config", writeConfig(t, demoServer("demo")))
	cmd.Env = environment(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "e2e"}, nil).Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := callText(t, session, "demo__echo", map[string]any{"text": "over stdio"}); got != "over stdio" {
		t.Errorf("echo answered %q", got)
	}
	below := descendants(t, cmd.Process.Pid)
	if err := session.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	allEnded(t, below, 0)
}

// TestCrashTool tries the promise as the README has people try it: the call
// that crashes the server gets a clear answer, and the next call works, on a
// new process.
func TestCrashTool(t *testing.T) {
	t.Parallel()
	host := run(t, demoServer("demo"), "demo")
	session := host.connect("/demo", nil)
	pid := func() int {
		t.Helper()
		res, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "demo://info"})
		if err != nil {
			t.Fatal(err)
		}
		var info struct{ PID int }
		if err := json.Unmarshal([]byte(res.Contents[0].Text), &info); err != nil {
			t.Fatal(err)
		}
		return info.PID
	}
	before := pid()
	start := time.Now()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "crash"})
	var said string
	switch {
	case err != nil:
		said = err.Error()
	case res.IsError:
		said = res.Content[0].(*mcp.TextContent).Text
	default:
		t.Fatalf("crash answered %v", res.Content)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("the call that crashed the server took %v", took)
	}
	if !strings.Contains(said, "demo") || !strings.Contains(said, "unknown") {
		t.Errorf("the caller hears %q; want the server's name and that the outcome is unknown", said)
	}
	if got := callText(t, session, "echo", map[string]any{"text": "back"}); got != "back" {
		t.Errorf("echo answered %q", got)
	}
	if after := pid(); after == before {
		t.Errorf("the server's process is still %d", after)
	}
}
