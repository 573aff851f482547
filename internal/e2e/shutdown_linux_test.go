package e2e

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestShutdownWinsOverReconnect: a host that is told to end while a server
// reconnects ends at once and leaves nothing behind, also if the attempt under
// way hangs.
func TestShutdownWinsOverReconnect(t *testing.T) {
	t.Parallel()
	over(t, numbers{budget: 1000}, func(t *testing.T, w *world) {
		w.server.set(down)
		from := w.mark()
		w.server.kill()
		w.awaitState(from, "target", "reconnecting")
		w.server.set(hanging)
		begun, _, _ := w.server.counts()
		w.server.await(t, "an attempt to reconnect", func() bool { return w.server.begun > begun })
		below := descendants(t, w.cmd.Process.Pid)

		// A caller that waits for the session must not hold the end up either.
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			_, _ = w.client.CallTool(t.Context(), &mcp.CallToolParams{Name: "target__read"}) // any end will do
		}()
		start := time.Now()
		if code := w.stop(); code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("the end took %v", took)
		}
		allEnded(t, below, 0)
		select {
		case <-answered:
		case <-time.After(patience):
			t.Error("a caller was left waiting")
		}
	})
}

// TestPluginStopsWhileItCloses: a plugin that is stopped when it has begun to
// close its session does not hold up the end for all the time that it would
// have had.
func TestPluginStopsWhileItCloses(t *testing.T) {
	t.Parallel()
	// The end of its input tells the server that the plugin is closing it.
	const script = `"$0"; sleep 0.5; kill -STOP $PPID; exec sleep 60`
	block := fmt.Sprintf("server \"target\" {\n  transport \"stdio\" {\n    command = \"sh\"\n    args = [\"-c\", %q, %q]\n    env = { %s = \"old\", %s = %q }\n  }\n}\n",
		script, self(t), eraEnv, eraFile, filepath.Join(t.TempDir(), "noted"))
	host := run(t, block, "target")
	below := descendants(t, host.cmd.Process.Pid)
	start := time.Now()
	if code := host.stop(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	// 1 s until it is asked again, 3 s for its answer.
	if took := time.Since(start); took > 6*time.Second {
		t.Errorf("the end took %v", took)
	} else if took < 3*time.Second {
		t.Errorf("the end took %v: the plugin was not stopped", took)
	}
	allEnded(t, below, 0)
}
