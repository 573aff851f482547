package host

import (
	"os"
	"strings"
	"testing"
)

// TestMemoryOfAServer: what a session has learnt of a server is there for the
// next, in another process of the plugin, until the server's configuration is
// another, or an operator wants a fresh start. What it advises is in the status,
// without secrets.
func TestMemoryOfAServer(t *testing.T) {
	const learns = "learns = true\n secret = \"hush-hush\""
	w := start(t, false, block("s", "one", learns, "isolate = true"))
	advice := func(what, want string) {
		t.Helper()
		w.await(what, func() bool { return strings.HasPrefix(w.status("s").Advice, want) })
	}
	advice("the first session", `remembered ""`)
	die := func() {
		t.Helper()
		w.await("a session", func() bool { return w.status("s").Peer != nil })
		plugin, err := os.FindProcess(w.status("s").Peer.Plugin)
		if err == nil {
			err = plugin.Kill()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	die()
	advice("the second", `remembered "much"`)
	w.await("its readiness", func() bool { return w.status("s").State == "ready" })
	if _, err := w.host.Reconnect("a test", "s"); err != nil {
		t.Fatal(err)
	}
	advice("one that an operator asked for", `remembered ""`)
	die()
	advice("the one after that", `remembered "much"`)
	w.write(block("s", "one", learns, "isolate = true\n prefix = \"p\""))
	w.reload()
	advice("the same after a change that no session notices", `remembered "much"`)
	w.write(block("s", "two", learns, "isolate = true"))
	w.reload()
	advice("another server", `remembered ""`)
	w.write(block("s", "two", "", "isolate = true"))
	w.reload()
	advice("no advice", "")
	if w.status("s").Advice != "" || strings.Contains(w.text(), "hush-hush") {
		t.Errorf("the status has the advice %q; all: %s", w.status("s").Advice, w.text())
	}
}
