package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A world is a host with one scripted server, "target", and a client.
type world struct {
	*runningHost
	server  *scripted
	client  *mcp.ClientSession
	changed chan struct{} // one for each tools/list_changed that the client got
}

// numbers are the settings that the tests of recovery shorten.
type numbers struct {
	call     string // limit of a call
	cooldown string
	base     string // the first wait between attempts
	budget   int
	revive   string

	connect   string // limit of an attempt
	keepAlive string
	health    string // limit of a check
	callWait  string // how long a call waits for a session
	protocol  string // null: the transport's choice
}

// withDefaults returns numbers that keep whatever a test does not look at from
// happening while it runs.
func (n numbers) withDefaults() numbers {
	for at, value := range map[*string]string{&n.call: "1s", &n.cooldown: "1h", &n.base: "50ms", &n.revive: "1h",
		&n.connect: "30s", &n.keepAlive: "0s", &n.health: "5s", &n.callWait: "2s", &n.protocol: "null"} {
		if *at == "" {
			*at = value
		}
	}
	if n.budget == 0 {
		n.budget = 3
	}
	return n
}

func (n numbers) String() string {
	n = n.withDefaults()
	return fmt.Sprintf(`
  protocol   = %s
  keep_alive = %q
  call_wait  = %q
  timeouts {
    call    = %q
    connect = %q
    health  = %q
  }
  breaker {
    threshold = 3
    cooldown  = %q
  }
  retry {
    base   = %q
    max    = %q
    budget = %d
  }
  revive {
    min = %q
    max = "1h"
  }
`, n.protocol, n.keepAlive, n.callWait, n.call, n.connect, n.health, n.cooldown, n.base, n.base, n.budget, n.revive)
}

// over runs a test over each transport of the house.
func over(t *testing.T, n numbers, test func(*testing.T, *world)) {
	for _, kind := range []string{"stdio", "http", "sse"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t, kind, n))
		})
	}
}

func newWorld(t *testing.T, kind string, n numbers) *world {
	t.Helper()
	w := &world{server: startScripted(t, kind), changed: make(chan struct{}, 100)}
	w.runningHost = run(t, w.server.block("target", n.String()), "target")
	w.client = w.connect("", &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { w.changed <- struct{}{} },
	})
	return w
}

// An outcome is what a client hears of a call.
type outcome struct {
	ok         bool
	text       string
	Server     string
	Reason     string // why the host answered in the server's place
	State      string
	RetryAfter time.Duration `json:"-"`
	RetryMs    int64         `json:"retryAfterMs"`
	Sent       bool
}

// call calls one of the server's tools.
func (w *world) call(tool string) outcome {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	res, err := w.client.CallTool(ctx, &mcp.CallToolParams{Name: "target__" + tool})
	if err != nil {
		w.t.Errorf("calling %s: %v", tool, err)
		return outcome{Reason: "JSON-RPC error"}
	}
	var o outcome
	if facts, ok := res.Meta["io.github.hermes-host/error"]; ok {
		text, err := json.Marshal(facts)
		if err == nil {
			err = json.Unmarshal(text, &o)
		}
		if err != nil {
			w.t.Errorf("the facts of an error: %v", err)
		}
		o.RetryAfter = time.Duration(o.RetryMs) * time.Millisecond
	}
	o.ok = !res.IsError
	o.text = res.Content[0].(*mcp.TextContent).Text
	return o
}

// calls makes several at once.
func (w *world) calls(n int, tool string) []outcome {
	w.t.Helper()
	all := make([]outcome, n)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() { all[i] = w.call(tool) })
	}
	wg.Wait()
	return all
}

// want makes a call and fails the test unless the reason for its failure is
// the given one; "" is for an answer.
func (w *world) want(reason, tool, when string) outcome {
	w.t.Helper()
	o := w.call(tool)
	if o.Reason != reason || o.ok != (reason == "") {
		w.t.Fatalf("%s: the call ended with reason %q (%s), want %q", when, o.Reason, o.text, reason)
	}
	return o
}

// open makes three calls run out of time, which opens the breaker on a session
// that lives.
func (w *world) open() {
	w.t.Helper()
	w.server.set(silent)
	for _, o := range w.calls(3, "write") {
		if o.Reason != "timeout" {
			w.t.Fatalf("a call that the server does not answer ended with %q (%s)", o.Reason, o.text)
		}
	}
	w.server.set(well)
}

// pass lets the time pass that the host asks callers to wait.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	select {
	case <-time.After(d + 20*time.Millisecond):
	case <-w.done:
		w.t.Fatal("the host has ended")
	}
}

// awaitTools waits until the client has been told that the tools changed, and
// then sees so many.
func (w *world) awaitTools(n int, what string) {
	w.t.Helper()
	for {
		select {
		case <-w.changed: // perhaps of what the client has seen already
			if w.tools() == n {
				return
			}
		case <-time.After(patience):
			w.t.Fatalf("the client sees %d tools, want %d: %s", w.tools(), n, what)
		}
	}
}

// tools returns how many tools the client sees.
func (w *world) tools() int {
	w.t.Helper()
	res, err := w.client.ListTools(w.t.Context(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return len(res.Tools)
}

// operator runs one of the commands for operators, which must succeed.
func (h *runningHost) operator(args ...string) string {
	h.t.Helper()
	out := command(h.t, "", append(args, "--config", h.config)...)
	if out.code != 0 {
		h.t.Fatalf("%q: exit code %d\n%s%s", args, out.code, out.stdout, out.stderr)
	}
	return out.stdout
}
