package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-host/hermes-host/host/admin"
)

// TestReloadTouchesWhatChanged changes a configuration in every way at once.
// The server that stays, and those of which only the lists or the place
// change, keep their sessions; the rest is as the new configuration says.
func TestReloadTouchesWhatChanged(t *testing.T) {
	w := start(t, false,
		block("stays", "stays", "", ""),
		block("changed", "before", "", ""),
		block("gone", "gone", "", ""),
		block("filtered", "filtered", "", ""),
	)
	c := w.client()
	before := map[string]string{}
	for _, name := range []string{"stays", "changed", "filtered"} {
		before[name] = c.mark(name)
	}
	c.tools()
	w.write(
		"# a comment moves everything\n\n",
		block("filtered", "filtered", "", "prefix = \"f\"\n tools {\n deny = [\"other\"]\n }"),
		block("new", "new", "", ""),
		block("changed", "after", "", ""),
		block("stays", "stays", "", ""),
	)
	changes := w.reload()
	if want := (admin.Changes{
		Added: []string{"new"}, Removed: []string{"gone"},
		Replaced: []admin.Change{{Server: "changed", Settings: []string{"transport mark"}}},
		Updated:  []admin.Change{{Server: "filtered", Settings: []string{"prefix", "tools"}}},
		Order:    true,
	}); mustJSON(t, changes) != mustJSON(t, want) {
		t.Errorf("the changes are %+v, want %+v", changes, want)
	}
	w.await("the new server", func() bool { return w.status("new").State == "ready" })

	if now := c.mark("stays"); now != before["stays"] {
		t.Errorf("the session of the server that stays was %q and is %q", before["stays"], now)
	}
	if now := c.mark("f"); now != before["filtered"] {
		t.Errorf("the session of the filtered server was %q and is %q", before["filtered"], now)
	}
	if now := c.mark("changed"); !strings.HasPrefix(now, "after ") {
		t.Errorf("the changed server says %q", now)
	}
	c.mark("new")
	want := []string{
		"changed__hold", "changed__mark", "changed__other", "f__hold", "f__mark",
		"new__hold", "new__mark", "new__other", "stays__hold", "stays__mark", "stays__other",
	}
	if got := c.tools(); !slices.Equal(got, want) {
		t.Errorf("the tools are %q, want %q", got, want)
	}
	if _, err := c.call("gone__mark", nil); err == nil || !strings.Contains(err.Error(), "Unknown tool") {
		t.Errorf("a call of the removed server: %v", err)
	}
	w.await("the notice", func() bool { return c.changes.Load() > 0 })
	var order []string
	for _, s := range w.host.Status().Servers {
		order = append(order, s.Name)
	}
	if want := []string{"filtered", "new", "changed", "stays"}; !slices.Equal(order, want) {
		t.Errorf("the order is %q, want %q", order, want)
	}
	if place := w.status("stays").Place; !strings.HasSuffix(place, ":32:1") && w.status("stays").Generation != 1 {
		t.Errorf("the server that stays is at %s, generation %d", place, w.status("stays").Generation)
	}
	if changes := w.reload(); !changes.None() || len(changes.Restart) > 0 {
		t.Errorf("the same again is %+v", changes)
	}
	var told []string
	events, _, _ := w.host.Events().Since(0)
	for _, e := range events {
		if e.Server == "" && strings.HasPrefix(e.Reason, "configuration") {
			told = append(told, e.Reason)
		}
	}
	if want := []string{
		"configuration applied, by a test: - gone: removed; + new: added; ~ changed: new session (transport mark); ~ filtered: lists only (prefix, tools); ~ the order of the servers",
		"configuration applied, by a test: nothing has changed",
	}; !slices.Equal(told, want) {
		t.Errorf("the events say %q, want %q", told, want)
	}
}

// TestReloadComparesValues: what the file comes to counts, not how it is written.
func TestReloadComparesValues(t *testing.T) {
	t.Setenv("HERMES_TEST_MARK", "s")
	written := func(mark string) string {
		return strings.Replace(block("s", "s", "", ""), `mark = "s"`, "mark = "+mark, 1)
	}
	w := start(t, false, written(`env("HERMES_TEST_MARK")`))
	c := w.client()
	session := c.mark("s")
	w.write("locals {\n  name = \"HERMES_TEST_MARK\"\n  mark = env(local.name)\n}\n", written("local.mark"))
	if changes := w.reload(); !changes.None() {
		t.Errorf("the same value, written otherwise: %+v", changes)
	}
	if now := c.mark("s"); now != session {
		t.Errorf("the session was %q and is %q", session, now)
	}
	t.Setenv("HERMES_TEST_MARK", "t")
	if changes := w.reload(); len(changes.Replaced) != 1 {
		t.Errorf("another value of the same text: %+v", changes)
	}
	if now := c.mark("s"); !strings.HasPrefix(now, "t ") {
		t.Errorf("the new session says %q", now)
	}
}

// TestRemovalComesFirst: nothing is left of a server that is removed when a new
// one starts, which may need what the other held.
func TestRemovalComesFirst(t *testing.T) {
	w := start(t, false, block("gone", "gone", "", "isolate = true"))
	w.await("a session", func() bool { return w.status("gone").Peer != nil })
	plugin, err := os.FindProcess(w.status("gone").Peer.Plugin)
	if err != nil {
		t.Fatal(err)
	}
	dialing := newGate(t)
	w.write(block("new", "new", "gate = \""+dialing.address()+"\"", ""))
	reloaded := make(chan error, 1)
	go func() {
		_, err := w.host.Reload(context.Background(), "a test", false)
		reloaded <- err
	}()
	connect := dialing.await()
	if err := plugin.Signal(syscall.Signal(0)); err == nil {
		t.Error("the new server starts, and the old one's process is there")
	}
	connect()
	if err := <-reloaded; err != nil {
		t.Fatal(err)
	}
	w.await("the new server", func() bool { return w.status("new").State == "ready" })
	if n := len(w.host.Status().Servers); n != 1 {
		t.Errorf("%d servers", n)
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestReloadIsSeamless holds up the new session of a changed server: the old
// one serves until it is there. A call that is in flight then is answered by
// the old session, while others already go to the new one; when it is
// answered, the old session ends.
func TestReloadIsSeamless(t *testing.T) {
	w := start(t, false, block("s", "old", "", ""))
	c := w.client()
	dialing, calling := newGate(t), newGate(t)
	w.write(block("s", "new", "gate = \""+dialing.address()+"\"", ""))
	reloaded := make(chan error, 1)
	go func() {
		_, err := w.host.Reload(context.Background(), "a test", false)
		reloaded <- err
	}()
	connect := dialing.await()
	if got := c.mark("s"); !strings.HasPrefix(got, "old ") {
		t.Errorf("while the new session comes up: %q", got)
	}
	type answer struct {
		text string
		err  error
	}
	held := make(chan answer, 1)
	go func() {
		text, err := c.call("s__hold", map[string]any{"gate": calling.address()})
		held <- answer{text, err}
	}()
	finish := calling.await()
	connect()
	if err := <-reloaded; err != nil {
		t.Fatal(err)
	}
	if got := c.mark("s"); !strings.HasPrefix(got, "new ") {
		t.Errorf("after the reload: %q", got)
	}
	if got, want := c.tools(), []string{"s__hold", "s__mark", "s__other"}; !slices.Equal(got, want) {
		t.Errorf("the tools are %q", got)
	}
	finish()
	if a := <-held; a.err != nil || !strings.HasPrefix(a.text, "old ") {
		t.Errorf("the call in flight: %q, %v", a.text, a.err)
	}
	w.await("the end of the old session", func() bool {
		events, _, _ := w.host.Events().Since(0)
		return slices.ContainsFunc(events, func(e admin.Event) bool {
			return e.Session != nil && e.Session.To == "stopped" && e.Reason == errChanged.Error()
		})
	})
	if got, want := c.tools(), []string{"s__hold", "s__mark", "s__other"}; !slices.Equal(got, want) {
		t.Errorf("after the end of the old session the tools are %q", got)
	}
}

// TestReloadRefused gives configurations that are wrong in each phase: nothing
// changes, and the caller, the log and status say why.
func TestReloadRefused(t *testing.T) {
	good := block("s", "old", "", "")
	w := start(t, false, good)
	c := w.client()
	session := c.mark("s")
	for name, blocks := range map[string][]string{
		"syntax":    {good, "server {"},
		"setting":   {block("s", "new", "", "callwait = \"1s\"")},
		"attribute": {block("s", "new", "", ""), block("t", "t", "marc = 1", "")},
		"plugin":    {block("s", "new", "", ""), "plugin \"test\" {\n  command = \"/does/not/exist\"\n}\n"},
	} {
		w.write(blocks...)
		for _, dry := range []bool{true, false} {
			_, err := w.host.Reload(t.Context(), "a test", dry)
			e, ok := errors.AsType[*admin.Error](err)
			if !ok || e.Code != admin.Refused || len(e.Diagnostics) == 0 || e.Text == "" {
				t.Errorf("%s: %+v", name, err)
			}
		}
		if r := w.host.Status().Reload; r == nil || r.Error == "" || r.By != "a test" {
			t.Errorf("%s: status says %+v", name, r)
		}
		if got := c.mark("s"); got != session || len(w.host.Status().Servers) != 1 {
			t.Errorf("%s: the session was %q and is %q", name, session, got)
		}
	}
	w.write(good)
	if changes := w.reload(); !changes.None() {
		t.Errorf("the good one again: %+v", changes)
	}
	if r := w.host.Status().Reload; r == nil || r.Error != "" {
		t.Errorf("status says %+v", r)
	}
}

// TestDryRun says what would change and does none of it.
func TestDryRun(t *testing.T) {
	w := start(t, false, "listen \"http\" {\n max_sessions = 5\n}\n", block("s", "old", "", ""))
	c := w.client()
	session := c.mark("s")
	w.write("listen \"http\" {\n max_sessions = 6\n token = \"a long secret token\"\n}\n", block("s", "new", "", ""), block("t", "t", "", "enabled = false"))
	changes, err := w.host.Reload(t.Context(), "a test", true)
	if err != nil {
		t.Fatal(err)
	}
	if want := (admin.Changes{
		DryRun: true, Added: []string{"t"},
		Replaced: []admin.Change{{Server: "s", Settings: []string{"transport mark"}}},
		Live:     []string{"listen token"}, Restart: []string{"listen max_sessions"},
	}); mustJSON(t, changes) != mustJSON(t, want) {
		t.Errorf("the changes are %+v, want %+v", changes, want)
	}
	other := filepath.Join(t.TempDir(), "other.hcl")
	if err := os.Link(w.path, other); err != nil {
		t.Fatal(err)
	}
	admins, err := admin.Shared(t.Context(), w.path)
	if err != nil {
		t.Fatal(err)
	}
	// The other file is in another place, and the host's own is not looked at.
	w.write("nonsense")
	if preview, err := admins.Preview(t.Context(), other); err != nil || mustJSON(t, preview) != mustJSON(t, changes) {
		t.Errorf("of another file the changes are %+v, %v; want the same", preview, err)
	}
	if _, err := admins.Preview(t.Context(), "other.hcl"); err == nil {
		t.Error("a path that is relative to nobody knows what was taken")
	}
	if err := os.Rename(other, w.path); err != nil {
		t.Fatal(err)
	}
	if got := c.mark("s"); got != session {
		t.Errorf("the session was %q and is %q", session, got)
	}
	w.reload()
	if got := w.host.Status().Restart; !slices.Equal(got, []string{"listen max_sessions"}) {
		t.Errorf("status says that %q need a restart", got)
	}
	res, err := http.Post(w.host.Info().URL, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the new token: %s", res.Status)
	}
	if w.status("t").State != "disabled" {
		t.Errorf("the disabled server is %s", w.status("t").State)
	}
}

// TestReloadToBroken takes over although the new session does not come up: the
// configuration is what its owner wants. The way back is another reload.
func TestReloadToBroken(t *testing.T) {
	w := start(t, false, block("s", "old", "", ""), block("t", "t", "", ""))
	c := w.client()
	w.write(block("s", "new", "broken = true\n secret = \"very-secret-word\"", ""), block("t", "t", "", "enabled = false"))
	changes := w.reload()
	if len(changes.Replaced) != 2 || !strings.Contains(changes.Replaced[0].Trouble, "it is parked: ") || changes.Replaced[1].Trouble != "" {
		t.Errorf("the changes are %+v", changes)
	}
	if got := c.tools(); len(got) > 0 {
		t.Errorf("the tools are %q", got)
	}
	if _, err := c.call("s__mark", nil); err == nil {
		t.Error("a call of a broken server was answered")
	}
	if s := w.status("s"); s.State != "parked" || s.Waits == "" || s.LastError == "" {
		t.Errorf("its status is %+v", s)
	}
	if text := w.text(); strings.Contains(text, "very-secret-word") {
		t.Errorf("a secret is seen: %s", text)
	}
	w.write(block("s", "again", "", ""), block("t", "t", "", ""))
	w.reload()
	if got := c.mark("s"); !strings.HasPrefix(got, "again ") {
		t.Errorf("after the repair: %q", got)
	}
	c.mark("t")
}

// TestLastToldStateIsRight changes servers in every way that gives them another
// session: the state that log and events told last is the one that they are in,
// the end of the earlier session is told as such, and no generation comes twice.
func TestLastToldStateIsRight(t *testing.T) {
	w := start(t, false, block("well", "1", "", ""), block("sick", "1", "broken = true", ""), block("off", "1", "", ""), block("late", "1", "", ""))
	c := w.client()
	dialing, calling := newGate(t), newGate(t)
	held := make(chan error, 1)
	go func() {
		_, err := c.call("late__hold", map[string]any{"gate": calling.address()})
		held <- err
	}()
	finish := calling.await()
	w.write(block("well", "2", "", ""), block("sick", "2", "", ""), block("off", "1", "", "enabled = false"),
		block("late", "2", "gate = \""+dialing.address()+"\"", ""))
	reloaded := make(chan error, 1)
	go func() {
		_, err := w.host.Reload(context.Background(), "a test", false)
		reloaded <- err
	}()
	connect := dialing.await()
	check := func(when string) {
		t.Helper()
		generations := map[string]string{} // of sessions that are ready
		told := map[string]string{}
		events, _, _ := w.host.Events().Since(0)
		for _, e := range events {
			if e.To != "" {
				told[e.Server] = e.To
			}
			if key := fmt.Sprint(e.Server, e.Generation); e.To == "ready" && generations[key] != "" {
				t.Errorf("%s: generation %d of %s comes twice", when, e.Generation, e.Server)
			} else if e.To == "ready" {
				generations[key] = e.To
			}
		}
		logged := map[string]string{}
		lines, _, _ := w.host.Logs().Since(0)
		for _, l := range lines {
			for _, f := range l.Fields {
				if f.Key == "state" {
					logged[l.Server] = f.Value
				}
			}
		}
		for _, s := range w.host.Status().Servers {
			if told[s.Name] != s.State || logged[s.Name] != s.State {
				t.Errorf("%s: %s is %s, the events say %q last and the log %q", when, s.Name, s.State, told[s.Name], logged[s.Name])
			}
		}
	}
	w.await("the servers that come at once", func() bool {
		return w.status("well").Generation == 2 && w.status("sick").State == "ready" && w.status("off").State == "disabled"
	})
	ends := func(name string) func() bool {
		return func() bool {
			lines, _, _ := w.host.Logs().Since(0)
			return slices.ContainsFunc(lines, func(l admin.Line) bool { return l.Server == name && l.Message == "earlier session ended" })
		}
	}
	for _, name := range []string{"well", "sick", "off"} {
		w.await("the end of "+name+"'s earlier session", ends(name))
	}
	check("while a new session is awaited")
	connect()
	if err := <-reloaded; err != nil {
		t.Fatal(err)
	}
	check("while the earlier session has a call")
	finish()
	if err := <-held; err != nil {
		t.Error(err)
	}
	w.await("the end of late's earlier session", ends("late"))
	check("in the end")
	if text := w.text(); strings.Contains(text, "server stopped") {
		t.Error("a server that works is said to have stopped")
	}
	w.write(block("well", "2", "", ""))
	w.reload()
	events, _, _ := w.host.Events().Since(0)
	for _, name := range []string{"sick", "late"} {
		if !slices.ContainsFunc(events, func(e admin.Event) bool { return e.Server == name && e.To == "stopped" }) {
			t.Errorf("nothing says that %s has stopped, which was removed", name)
		}
	}
}

// TestReloadOfPlugin changes a plugin block: the servers of its kind get
// sessions in new processes, with nothing in between.
func TestReloadOfPlugin(t *testing.T) {
	w := start(t, false, block("s", "s", "", ""))
	c := w.client()
	before := c.mark("s")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w.write(block("s", "s", "", ""), pluginBlock(exe, "another value"))
	changes := w.reload()
	if !slices.Equal(changes.Live, []string{"plugin test"}) || len(changes.Replaced) != 1 || changes.Replaced[0].Trouble != "" {
		t.Errorf("the changes are %+v", changes)
	}
	process := func(mark string) string { pid, _, _ := strings.Cut(mark, "/"); return pid }
	if after := c.mark("s"); process(after) == process(before) {
		t.Errorf("the process was %q and is %q", before, after)
	}
}

// TestWatchedFile changes the file in the ways of editors; a wrong one is
// refused, and the next right one taken.
func TestWatchedFile(t *testing.T) {
	w := start(t, true, block("s", "one", "", ""))
	c := w.client()
	says := func(mark string) func() bool {
		return func() bool { return strings.HasPrefix(c.mark("s"), mark+" ") }
	}
	w.write(block("s", "two", "", ""))
	w.await("a file that was replaced", says("two"))

	text, err := os.ReadFile(w.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.path, []byte(strings.Replace(string(text), "two", "three", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	w.await("a file that was written", says("three"))

	w.write("nonsense {")
	w.await("a refusal", func() bool { r := w.host.Status().Reload; return r != nil && r.Error != "" })
	w.write(block("s", "four", "", ""))
	w.await("the next one", says("four"))
}

// TestWatchedFileLost empties the file, takes it away, and then its whole
// directory. The servers go on, status says what is wrong for as long as it is,
// and the log once. Only who asks for it gets what an empty file says.
func TestWatchedFileLost(t *testing.T) {
	w := start(t, true, block("s", "one", "", ""))
	c := w.client()
	session := c.mark("s")
	text, err := os.ReadFile(w.path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(w.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	refused := func() bool { r := w.host.Status().Reload; return r != nil && strings.Contains(r.Error, "empty") }
	goesOn := func(what string) {
		t.Helper()
		if now := c.mark("s"); now != session {
			t.Errorf("%s: the session was %q and is %q", what, session, now)
		}
	}
	write(" \n")
	w.await("the refusal of an empty file", refused)
	goesOn("an empty file")
	write(string(text))
	w.await("the text that was there before", func() bool { return w.host.Status().Reload.Error == "" })
	goesOn("the same text again")

	dir := filepath.Dir(w.path)
	for what, move := range map[string]func(){
		"file":      func() { must(t, os.Rename(w.path, w.path+".old")) },
		"directory": func() { must(t, os.Rename(dir, dir+".old")) },
	} {
		move()
		w.await("word of a lost "+what, func() bool { m := w.host.Status().Missing; return m != nil && m.Why == "it is gone" })
		goesOn("a lost " + what)
		must(t, os.MkdirAll(dir, 0o700))
		write(string(text))
		w.await("word that it is back", func() bool { return w.host.Status().Missing == nil })
		goesOn("the " + what + " is back")
	}
	var told []string
	events, _, _ := w.host.Events().Since(0)
	for _, e := range events {
		if strings.Contains(e.Reason, "configuration file") {
			told = append(told, e.Reason)
		}
	}
	const gone, back = "no configuration file: it is gone", "the configuration file is back"
	if want := []string{gone, back, gone, back}; !slices.Equal(told, want) {
		t.Errorf("the events say %q, want %q", told, want)
	}
	write(strings.Replace(string(text), `"one"`, `"two"`, 1))
	w.await("a change after all that", func() bool { return strings.HasPrefix(c.mark("s"), "two ") })

	write("")
	w.await("the refusal of an empty file", refused)
	w.reload()
	if n := len(w.host.Status().Servers); n != 0 {
		t.Errorf("an operator's reload of an empty file leaves %d servers", n)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestStopDuringReload stops the host while a new session is awaited.
func TestStopDuringReload(t *testing.T) {
	w := start(t, false, block("s", "old", "", ""))
	dialing := newGate(t)
	w.write(block("s", "new", "gate = \""+dialing.address()+"\"", ""))
	reloaded := make(chan error, 1)
	go func() {
		_, err := w.host.Reload(context.Background(), "a test", false)
		reloaded <- err
	}()
	defer dialing.await()()
	w.stop()
	select {
	case <-reloaded:
	case <-time.After(patience):
		t.Error("the reload goes on")
	}
	if _, err := w.host.Reload(t.Context(), "a test", false); err == nil {
		t.Error("a host that has stopped was reloaded")
	}
}

// TestHealth asks /healthz and /readyz while a server is on its way, when it
// has come, and after another was added.
func TestHealth(t *testing.T) {
	dialing := newGate(t)
	w := begin(t, false, block("s", "s", "gate = \""+dialing.address()+"\"", ""))
	get := func(path string) (int, string) {
		t.Helper()
		res, err := http.Get(strings.TrimSuffix(w.host.Info().URL, "/mcp") + path)
		if err != nil {
			t.Fatal(err)
		}
		defer http.DefaultClient.CloseIdleConnections()
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	check := func(path string, wantCode int, want string) {
		t.Helper()
		if code, body := get(path); code != wantCode || !strings.Contains(body, want) {
			t.Errorf("%s: %d %q, want %d %q", path, code, body, wantCode, want)
		}
	}
	connect := dialing.await()
	check("/healthz", 200, "healthy")
	check("/readyz", 503, "not ready: s: connecting")
	check("/readyz?verbose", 503, `{"ok":false,"bad":{"s":"connecting"},"servers":{"s":"connecting"}}`)
	connect()
	w.await("ready", func() bool { return w.host.Status().Ready })
	check("/readyz", 200, "ready")
	check("/healthz?verbose", 200, `{"ok":true,"servers":{"s":"ready"}}`)

	second := newGate(t)
	w.write(block("s", "s", "gate = \""+dialing.address()+"\"", ""), block("t", "t", "gate = \""+second.address()+"\"", ""))
	w.reload()
	defer second.await()()
	check("/readyz", 200, "ready")
}
