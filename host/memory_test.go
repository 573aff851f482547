package host

import (
	"strings"
	"testing"
)

// TestMemoryOfAServer: what a session has learnt of a server is there for the
// next, in another process of the plugin, until the server's configuration is
// another. What it advises is in the status, without secrets.
func TestMemoryOfAServer(t *testing.T) {
	const learns = "learns = true\n secret = \"hush-hush\""
	w := start(t, false, block("s", "one", learns, "isolate = true"))
	advice := func(what, want string) {
		t.Helper()
		w.await(what, func() bool { return strings.HasPrefix(w.status("s").Advice, want) })
	}
	advice("the first session", `remembered ""`)
	if _, err := w.host.Reconnect("a test", "s"); err != nil {
		t.Fatal(err)
	}
	advice("the second", `remembered "much"`)
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
