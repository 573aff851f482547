package host

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-host/hermes-host/host/admin"
)

// A reloading is a reload that goes on.
type reloading struct {
	w    *world
	done chan admin.Changes
}

func (w *world) reloading() *reloading {
	r := &reloading{w, make(chan admin.Changes, 1)}
	go func() {
		changes, err := w.host.Reload(context.Background(), "a test", false)
		if err != nil {
			w.t.Errorf("reloading: %v", err)
		}
		r.done <- changes
	}()
	return r
}

func (r *reloading) wait() admin.Changes {
	r.w.t.Helper()
	select {
	case c := <-r.done:
		return c
	case <-time.After(patience):
		r.w.t.Fatal("the reload goes on")
		return admin.Changes{}
	}
}

func gated(g *gate) string { return "gate = \"" + g.address() + "\"" }

// TestNewerConfigurationGoesPast changes a server again whose new session hangs,
// and adds another: neither waits for that session, which is given up.
func TestNewerConfigurationGoesPast(t *testing.T) {
	w := start(t, false, block("s", "old", "", ""), block("u", "u", "", ""))
	c := w.client()
	hanging := newGate(t)
	unrelated := c.mark("u")
	w.write(block("s", "hangs", gated(hanging), ""), block("u", "u", "", ""))
	first := w.reloading()
	defer hanging.await()()
	if n := w.status("s").Next; n == nil || n.State != "connecting" || !slices.Equal(n.Settings, []string{"transport gate", "transport mark"}) {
		t.Errorf("while the new session is awaited, status says %+v", n)
	}
	if got := c.mark("s"); !strings.HasPrefix(got, "old ") {
		t.Errorf("while the new session is awaited: %q", got)
	}
	w.write(block("s", "newer", "", ""), block("u", "u", "", ""), block("t", "t", "", ""))
	second := w.reload()
	if len(second.Added) != 1 || len(second.Replaced) != 1 || second.Replaced[0].Trouble != "" {
		t.Errorf("the second reload did %+v", second)
	}
	w.await("the new server", func() bool { return w.status("t").State == "ready" })
	if got := c.mark("s"); !strings.HasPrefix(got, "newer ") {
		t.Errorf("after the second change: %q", got)
	}
	if got := c.mark("u"); got != unrelated {
		t.Errorf("the session of a server that stays was %q and is %q", unrelated, got)
	}
	if changes := first.wait(); len(changes.Replaced) != 1 || changes.Replaced[0].Trouble != errNewer.Error() {
		t.Errorf("the first reload did %+v", changes)
	}
	if n := w.status("s").Next; n != nil {
		t.Errorf("in the end status says %+v", n)
	}
	w.await("the end of the session that was given up", func() bool {
		lines, _, _ := w.host.Logs().Since(0)
		return slices.ContainsFunc(lines, func(l admin.Line) bool {
			return l.Message == "earlier session ended" && slices.Contains(l.Fields, admin.Field{Key: "reason", Value: errNewer.Error()})
		})
	})
	events, _, _ := w.host.Events().Since(0)
	last := ""
	for _, e := range events {
		if e.Server == "s" && e.To != "" {
			last = e.To
		}
	}
	if last != "ready" {
		t.Errorf("the state that was told last is %q", last)
	}
}

// TestAwaitedSessionIsKept reloads while a new session is awaited: where its
// block is the same it goes on coming up, and both reloads hear of it.
func TestAwaitedSessionIsKept(t *testing.T) {
	w := start(t, false, block("s", "old", "", ""))
	c := w.client()
	slow := newGate(t)
	w.write(block("s", "new", gated(slow), ""))
	first := w.reloading()
	open := slow.await()
	since := w.status("s").Next.Since
	w.write(block("s", "new", gated(slow), "prefix = \"p\""), block("t", "t", "", ""))
	second := w.reloading()
	w.await("the new server", func() bool { return len(w.host.Status().Servers) == 2 && w.status("t").State == "ready" })
	if n := w.status("s").Next; n == nil || !n.Since.Equal(since) {
		t.Errorf("status says %+v, before it was since %v", n, since)
	}
	open()
	if changes := first.wait(); changes.Replaced[0].Trouble != "" {
		t.Errorf("the first reload did %+v", changes)
	}
	if changes := second.wait(); len(changes.Replaced) > 0 || len(changes.Waiting) != 1 || len(changes.Updated) != 1 ||
		changes.Waiting[0].Server != "s" || changes.Waiting[0].Trouble != "" {
		t.Errorf("the second reload did %+v", changes)
	}
	if got := c.mark("p"); !strings.HasPrefix(got, "new ") {
		t.Errorf("in the end: %q", got)
	}
	if s := w.status("s"); s.Generation != 2 || s.Next != nil {
		t.Errorf("in the end the status is %+v", s)
	}
}

// TestAwaitedSessionIsDropped takes a change back, and then the whole server,
// while its new session is awaited.
func TestAwaitedSessionIsDropped(t *testing.T) {
	old := block("s", "old", "", "")
	w := start(t, false, old)
	c := w.client()
	session := c.mark("s")
	slow := newGate(t)
	change := func() *reloading {
		w.write(block("s", "new", gated(slow), ""))
		r := w.reloading()
		t.Cleanup(slow.await())
		return r
	}
	first := change()
	w.write(old)
	if changes := w.reload(); !slices.Equal(changes.Dropped, []string{"s"}) || len(changes.Replaced) > 0 || changes.None() {
		t.Errorf("taking it back did %+v", changes)
	}
	if trouble := first.wait().Replaced[0].Trouble; trouble != errNewer.Error() {
		t.Errorf("of the change that was taken back: %q", trouble)
	}
	if got := c.mark("s"); got != session || w.status("s").Next != nil {
		t.Errorf("the session was %q and is %q", session, got)
	}
	second := change()
	w.write(block("t", "t", "", ""))
	w.reload()
	if trouble := second.wait().Replaced[0].Trouble; trouble != errNewer.Error() {
		t.Errorf("of the change of a server that was removed: %q", trouble)
	}
	if n := len(w.host.Status().Servers); n != 1 {
		t.Errorf("%d servers", n)
	}
}

// TestOrdersReachAwaitedSession: an operator's order for a server is also for the
// session that is about to take over.
func TestOrdersReachAwaitedSession(t *testing.T) {
	w := start(t, false, block("s", "old", "", ""))
	slow := newGate(t)
	w.write(block("s", "new", gated(slow), ""))
	r := w.reloading()
	defer slow.await()()
	must(t, w.host.Park("an operator", "s"))
	if changes := r.wait(); !strings.Contains(changes.Replaced[0].Trouble, "parked by an operator") {
		t.Errorf("the reload did %+v", changes)
	}
	if s := w.status("s"); s.State != "parked" || s.NextAttempt != nil {
		t.Errorf("after the order of a park it is %+v", s)
	}
}

// TestWatchedFileGoesPast saves a correction, while the new session of what was
// saved before it is awaited.
func TestWatchedFileGoesPast(t *testing.T) {
	w := start(t, true, block("s", "old", "", ""))
	c := w.client()
	hanging := newGate(t)
	w.write(block("s", "hangs", gated(hanging), ""))
	defer hanging.await()()
	w.write(block("s", "newer", "", ""), block("t", "t", "", ""))
	w.await("the correction", func() bool { return strings.HasPrefix(c.mark("s"), "newer ") })
	w.await("the new server", func() bool { return w.status("t").State == "ready" })
}

// TestLongRemoval removes a server that has a call. A newer configuration does
// not wait for its end, unless it has the server again: that comes after.
func TestLongRemoval(t *testing.T) {
	w := start(t, false, block("gone", "1", "", ""), block("s", "s", "", ""))
	c := w.client()
	calling := newGate(t)
	held := make(chan error, 1)
	go func() {
		_, err := c.call("gone__hold", map[string]any{"gate": calling.address()})
		held <- err
	}()
	finish := calling.await()
	w.write(block("s", "s", "", ""))
	first := w.reloading()
	w.await("the removal", func() bool { return len(w.host.Status().Servers) == 1 })
	w.write(block("s", "s", "", ""), block("t", "t", "", ""), block("gone", "2", "", ""))
	w.reload()
	w.await("the new server", func() bool { return w.status("t").State == "ready" })
	if s := w.status("gone"); s.State != "connecting" || s.Generation != 0 {
		t.Errorf("before the end of the earlier one it is %+v", s)
	}
	select {
	case changes := <-first.done:
		t.Errorf("the first reload has not waited for what it removes: %+v", changes)
	default:
	}
	res, err := http.Get(strings.TrimSuffix(w.host.Info().URL, "/mcp") + "/healthz")
	must(t, err)
	res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if res.StatusCode != http.StatusOK {
		t.Errorf("while a server waits to be started, healthz says %s", res.Status)
	}
	finish()
	if err := <-held; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	first.wait()
	w.await("the server that is back", func() bool { return w.status("gone").State == "ready" })
	if got := c.mark("gone"); !strings.HasPrefix(got, "2 ") {
		t.Errorf("the server that is back says %q", got)
	}
}
