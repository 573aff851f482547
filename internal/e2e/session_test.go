package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What becomes of calls when the session under them is lost, and which
// sessions must not be lost at all. With real processes, over each transport.

// TestManyCallersOneSession: a server dies, and over http its old session id is
// still in use when many calls come at once. One new session serves them all,
// each is carried out once, and the answers come from the new process.
func TestManyCallersOneSession(t *testing.T) {
	t.Parallel()
	over(t, numbers{call: "10s", base: "500ms", budget: 10}, func(t *testing.T, w *world) {
		before := w.want("", "write", "before the death")
		sessions, calls := w.server.sessions(), w.server.callCount()
		w.server.kill()
		for _, o := range w.calls(20, "write") {
			// What was written to a process that was about to die can't be
			// known; everything else is answered.
			if !o.ok && o.Reason != "outcome unknown" {
				t.Errorf("a call after the death: %q (%s)", o.Reason, o.text)
			}
			if o.ok && w.server.kind == "stdio" && o.text == before.text {
				t.Errorf("an answer from process %s, which is dead", o.text)
			}
		}
		after := w.want("", "write", "once the new session is there")
		if after.text == before.text {
			t.Errorf("the server's process is still %s", after.text)
		}
		if got := w.server.sessions() - sessions; got != 1 {
			t.Errorf("%d new sessions, want 1", got)
		}
		// Over http and sse a call may also have reached the new process under
		// the old session's id, which refuses it.
		if got := w.server.callCount() - calls; got > 21 && w.server.kind == "stdio" {
			t.Errorf("21 calls, but %d reached the server", got)
		}
	})
}

// TestOneLostSession: of two servers at one host one loses its session. The
// other one, and the client's session, notice nothing.
func TestOneLostSession(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"stdio", "http", "sse"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			lost, kept := startScripted(t, kind), startScripted(t, kind)
			host := run(t, lost.block("lost", "")+kept.block("kept", ""), "lost", "kept")
			client := host.connect("", nil)
			pid := callText(t, client, "kept__read", nil)
			sessions := kept.sessions()
			from := host.mark()
			lost.kill()
			callText(t, client, "lost__read", nil)
			host.awaitState(from, "lost", "ready")
			if got := callText(t, client, "kept__read", nil); got != pid {
				t.Errorf("the other server's process is %s, was %s", got, pid)
			}
			if got := kept.sessions(); got != sessions {
				t.Errorf("the other server was initialised %d times more", got-sessions)
			}
			if states := host.states(from, "kept"); len(states) > 0 {
				t.Errorf("the other server went through %q", states)
			}
		})
	}
}

// TestDeathUnderACall: the server dies with a call in flight. A write fails in
// under a second, its caller hears that the outcome is unknown, and it is not
// sent again; a call that may be repeated is, once, on the new session.
func TestDeathUnderACall(t *testing.T) {
	t.Parallel()
	over(t, numbers{call: "20s", base: "500ms", budget: 10, callWait: "20s"}, func(t *testing.T, w *world) {
		inFlight := func(tool string) (o outcome, sent int) {
			t.Helper()
			calls, silenced := w.server.callCount(), w.server.unanswered()
			w.server.set(silent)
			answered := make(chan outcome, 1)
			go func() { answered <- w.call(tool) }()
			w.server.await(t, "the call", func() bool { return w.server.calls > calls })
			// From here on a call is answered; the one in flight is not.
			w.server.await(t, "the call in the server", func() bool { return w.server.silenced > silenced })
			w.server.set(well)
			start := time.Now()
			w.server.kill()
			o = <-answered
			if took := time.Since(start); tool == "write" && took > time.Second {
				t.Errorf("the call failed %v after the death", took)
			}
			sent = w.server.callCount() - calls
			// Over http it may come before the loss is known, and is sent again
			// when the new process refuses the old session's id.
			w.want("", "read", "the next call")
			return o, sent
		}
		o, sent := inFlight("write")
		if o.Reason != "outcome unknown" || !o.Sent {
			t.Errorf("the write ended with %q (%s)", o.Reason, o.text)
		}
		if sent != 1 {
			t.Errorf("the write reached the server %d times", sent)
		}
		if o, sent = inFlight("read"); !o.ok {
			t.Errorf("the read ended with %q (%s)", o.Reason, o.text)
		}
		if sent != 2 {
			t.Errorf("the read reached the server %d times, want one and its repetition", sent)
		}
	})
}

// TestWedgedSession: a session that is alive, but answers nothing at all, opens
// the breaker. That makes the host check it and build a new one, which closes
// the breaker; no cooldown has to pass.
func TestWedgedSession(t *testing.T) {
	t.Parallel()
	over(t, numbers{cooldown: "1h", health: "500ms", base: "500ms", budget: 10}, func(t *testing.T, w *world) {
		from := w.mark()
		w.server.set(held)
		for _, o := range w.calls(3, "write") {
			if o.ok {
				t.Error("a wedged server has answered")
			}
		}
		from = w.awaitState(from, "target", "reconnecting")
		w.server.set(well)
		w.awaitState(from, "target", "ready")
		w.want("", "write", "on the new session")
	})
}

// TestPingIsNotLife: a healthy server that never answers ping is kept, however
// often it is checked, and so is one that answers nothing while it works on a
// call. From 2026-07-28 on server/discover stands for ping.
func TestPingIsNotLife(t *testing.T) {
	t.Parallel()
	n := numbers{keepAlive: "100ms", health: "300ms", call: "20s"}
	over(t, n, keptAlive)
	n.protocol = `"2026-07-28"`
	for _, kind := range []string{"stdio", "stateless"} {
		t.Run("2026-07-28 over "+kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, kind, n)
			if status := w.operator("status", "target"); !strings.Contains(status, "MCP 2026-07-28") {
				t.Fatalf("the session is of another version:\n%s", status)
			}
			keptAlive(t, w)
		})
	}
}

func keptAlive(t *testing.T, w *world) {
	from, sessions := w.mark(), w.server.sessions()
	w.server.set(deaf)
	w.server.mu.Lock()
	before := w.server.pings
	w.server.mu.Unlock()
	w.server.await(t, "five more pings", func() bool { return w.server.pings >= before+5 })
	w.want("", "write", "of a server that ignores ping")

	w.server.set(held)
	calls := w.server.callCount()
	answered := make(chan outcome, 1)
	go func() { answered <- w.call("write") }()
	w.server.await(t, "the call", func() bool { return w.server.calls > calls })
	w.pass(1500 * time.Millisecond) // many checks, were they made
	w.server.set(well)
	if o := <-answered; !o.ok {
		t.Errorf("the long call ended with %q (%s)", o.Reason, o.text)
	}
	if states := w.states(from, "target"); len(states) > 0 || w.server.sessions() != sessions {
		t.Errorf("a healthy server went through %q and %d new sessions", states, w.server.sessions()-sessions)
	}
}

// TestFirstCalls: fifty calls that come while the server starts wait for the
// one session, and are answered.
func TestFirstCalls(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"stdio", "http", "sse"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := &world{server: startScripted(t, kind)}
			w.server.set(held)
			w.runningHost = run(t, w.server.block("target", "  call_wait = \"20s\"\n"))
			w.client = w.connect("", nil)
			w.server.await(t, "the handshake", func() bool { return w.server.inits > 0 })
			answered := make(chan []outcome, 1)
			go func() { answered <- w.calls(50, "write") }()
			w.pass(300 * time.Millisecond) // for the calls to arrive
			w.server.set(well)
			for _, o := range <-answered {
				if !o.ok {
					t.Errorf("%q (%s)", o.Reason, o.text)
				}
			}
			if got := w.server.sessions(); got != 1 {
				t.Errorf("%d sessions, want 1", got)
			}
			if begun, _, _ := w.server.counts(); kind == "stdio" && begun != 1 {
				t.Errorf("%d processes, want 1", begun)
			}
		})
	}
}

// TestToolErrorsAreNoStrikes: a tool that answers with an error has answered,
// however often.
func TestToolErrorsAreNoStrikes(t *testing.T) {
	t.Parallel()
	over(t, numbers{}, func(t *testing.T, w *world) {
		for range 5 {
			if o := w.call("fail"); o.ok || o.Reason != "" || o.text != "no such ticket" {
				t.Fatalf("the tool's own error arrived as %+v", o)
			}
		}
		w.want("", "write", "after five errors of a tool")
	})
}

// TestCallsEndAlone: a call that runs out of time, and one whose caller gives it
// up, end alone. The server is told to cancel them, and keeps its session and its
// tools.
func TestCallsEndAlone(t *testing.T) {
	t.Parallel()
	over(t, numbers{call: "2s"}, func(t *testing.T, w *world) {
		from := w.mark()
		w.server.set(silent)
		w.want("timeout", "write", "of a server that does not answer")
		w.server.await(t, "the cancellation of the call that ran out of time", func() bool { return w.server.dropped == 1 })

		calls := w.server.callCount()
		ctx, cancel := context.WithCancel(t.Context())
		given := make(chan error, 1)
		go func() {
			_, err := w.client.CallTool(ctx, &mcp.CallToolParams{Name: "target__write"})
			given <- err
		}()
		w.server.await(t, "the second call", func() bool { return w.server.calls > calls && w.server.silenced == 2 })
		cancel()
		start := time.Now()
		if err := <-given; err == nil {
			t.Error("a call that was given up was answered")
		}
		w.server.await(t, "the cancellation of the call that was given up", func() bool { return w.server.dropped == 2 })
		if took := time.Since(start); took > time.Second {
			t.Errorf("the server was told %v after the caller gave up", took)
		}

		w.server.set(well)
		w.want("", "write", "after both")
		if n, states := w.tools(), w.states(from, "target"); n != 3 || len(states) > 0 {
			t.Errorf("%d tools are listed, and the server went through %q", n, states)
		}
	})
}

// TestServerThatComesLater: a server that refuses every attempt at the host's
// start is parked with the reason, not "starting" for ever, and ready without
// anybody's help once it is there.
func TestServerThatComesLater(t *testing.T) {
	t.Parallel()
	for kind, reason := range map[string]string{"stdio": "the script says that this process dies", "http": "503", "sse": "503"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := &world{server: startScripted(t, kind)}
			w.server.set(down)
			w.runningHost = run(t, w.server.block("target", numbers{revive: "1s"}.String()))
			parked, from := w.await(0, "the server to be parked", func(l line) bool { return l.Server == "target" && l.State == "parked" })
			if !strings.Contains(parked.Error, reason) {
				t.Errorf("parked with the error %q, want %q in it", parked.Error, reason)
			}
			w.server.set(well)
			w.awaitState(from, "target", "ready")
			w.client = w.connect("", nil)
			w.want("", "write", "once the server is there")
		})
	}
}
