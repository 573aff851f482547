package host

import (
	"cmp"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hermes-host/hermes-host/host/admin"
)

// TestOperator parks and reconnects a server over the admin socket, and sees
// it happen.
func TestOperator(t *testing.T) {
	w := start(t, false, block("s", "s", "secret = \"very-secret-word\"", ""), block("off", "off", "", "enabled = false"))
	ctx := t.Context()
	c, err := admin.Shared(ctx, w.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Park(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	w.await("the park", func() bool { s := w.status("s"); return s.State == "parked" && !s.Catalog.Live })
	if s := w.status("s"); s.NextAttempt != nil || !strings.Contains(s.Reason, "operator") || s.Sessions != 0 {
		t.Errorf("parked: %+v", s)
	}
	if names, err := c.Reconnect(ctx); err != nil || len(names) != 1 || names[0] != "s" {
		t.Errorf("reconnecting all: %q, %v", names, err)
	}
	w.await("the reconnect", func() bool { return w.status("s").State == "ready" })
	if s := w.status("s"); s.Starts != 2 || s.Generation != 2 || s.Peer == nil {
		t.Errorf("reconnected: %+v", s)
	}

	for name, want := range map[string]admin.Code{"x": admin.UnknownServer, "off": admin.Disabled} {
		_, err := c.Reconnect(ctx, "s", name)
		if e, ok := errors.AsType[*admin.Error](err); !ok || e.Code != want {
			t.Errorf("reconnecting %s: %v", name, err)
		}
		if e, ok := errors.AsType[*admin.Error](c.Park(ctx, name)); !ok || e.Code != want {
			t.Errorf("parking %s: %v", name, e)
		}
	}
	if s := w.status("s"); s.Starts != 2 {
		t.Errorf("a refused order had an effect: %+v", s)
	}

	var seen []string
	if err := c.Events(ctx, admin.Query{Server: "s"}, func(e admin.Event) error {
		seen = append(seen, e.From+" "+e.To)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(seen, ", "), "connecting ready, ready parked, parked reconnecting, reconnecting ready"; got != want {
		t.Errorf("the events are %s; want %s", got, want)
	}
	lines := 0
	if err := c.Logs(ctx, admin.Query{Server: "s"}, func(l admin.Line) error { lines++; return nil }); err != nil || lines < 3 {
		t.Errorf("%d log lines, %v", lines, err)
	}
	if text := w.text(); strings.Contains(text, "very-secret-word") || !strings.Contains(text, "(sensitive)") {
		t.Errorf("what operators see: %s", text)
	}
}

// TestOrdersReachClientsSessions: an operator's orders for a server are also for
// the sessions that clients have for themselves, and for those to come.
func TestOrdersReachClientsSessions(t *testing.T) {
	w := start(t, false, block("s", "s", "", "session = \"client\""))
	c, err := admin.Shared(t.Context(), w.path)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := w.join(c, "2025-11-25")
	a := first.mark("s")
	if b := first.mark("s"); a != b {
		t.Fatalf("one client, two sessions: %s and %s", a, b)
	}
	if _, err := c.Reconnect(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	w.await("the session in place of the first", func() bool {
		text, err := first.call("s__mark", nil) // one that the order overtakes fails
		return err == nil && text != a
	})
	w.await("both sessions", func() bool { s := w.status("s"); return s.State == "ready" && s.Sessions == 2 })

	if err := c.Park(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	w.await("the park of both", func() bool { s := w.status("s"); return s.State == "parked" && s.Sessions == 0 })
	second, _ := w.join(c, "2025-11-25")
	for _, who := range []*client{first, second} {
		res, err := who.CallTool(t.Context(), &mcp.CallToolParams{Name: "s__mark"})
		if err == nil && !res.IsError {
			t.Error("a call was answered by a server that an operator has parked")
		}
	}
	if s := w.status("s"); s.Sessions != 0 {
		t.Errorf("%d sessions with a parked server", s.Sessions)
	}
	if _, err := c.Reconnect(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	w.await("the shared session", func() bool { return w.status("s").State == "ready" })
	if a, b := first.mark("s"), second.mark("s"); a == b {
		t.Errorf("two clients, one session: %s", a)
	}
}

// TestClientsSessionsAreSeen ends the process of a server in which two clients
// have sessions of their own, one with a call in flight: status counts what they
// do and lists them, log and events tell them apart, and none is taken for the
// server.
func TestClientsSessionsAreSeen(t *testing.T) {
	w := start(t, false, block("s", "s", "", "session = \"client\""))
	c, err := admin.Shared(t.Context(), w.path)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := w.join(c, "2025-11-25")
	second, _ := w.join(c, "2025-11-25")
	for range 2 {
		first.mark("s")
	}
	gate := newGate(t)
	held := make(chan error, 1)
	go func() {
		_, err := second.call("s__hold", map[string]any{"gate": gate.address()})
		held <- err
	}()
	defer gate.await()()
	s := w.status("s")
	if s.Sessions != 3 || s.Starts != 3 || s.Clients != 2 || s.Calls != (admin.Calls{Total: 3, InFlight: 1}) {
		t.Errorf("the status is %+v", s)
	}
	ids := map[string]bool{}
	for _, own := range s.ClientSessions {
		ids[own.ID] = true
		if own.Client != "test" || own.State != "ready" || own.Plugin != s.Peer.Plugin || own.Calls.Total == 0 {
			t.Errorf("a client's session is %+v", own)
		}
	}
	if len(ids) != 2 {
		t.Errorf("the clients' sessions are %+v", s.ClientSessions)
	}
	plugin, err := os.FindProcess(s.Peer.Plugin)
	must(t, err)
	must(t, plugin.Kill())
	if err := <-held; err == nil {
		t.Error("a call was answered by a server that was killed")
	}
	first.mark("s")
	second.mark("s")
	w.await("all sessions", func() bool { s := w.status("s"); return s.State == "ready" && s.Sessions == 3 })
	if s := w.status("s"); s.Starts != 6 || s.Calls.Total != 5 || s.Calls.Failed != 1 || s.Calls.InFlight != 0 {
		t.Errorf("after the recovery the status is %+v", s)
	}
	_ = first.Close()
	w.await("the end of the first client's session", func() bool { return w.status("s").Clients == 1 })
	if s := w.status("s"); s.Calls.Total != 5 {
		t.Errorf("the calls of a client that is gone are forgotten: %+v", s.Calls)
	}
	w.await("the count of the sessions of a client that is gone", func() bool { return w.status("s").Starts == 6 })

	// Lines and events may come a moment after what they tell.
	said := func(message string) (n int) {
		lines, _, _ := w.host.Logs().Since(0)
		for _, l := range lines {
			if l.Message == message {
				n++
			}
		}
		return n
	}
	w.await("the last lines of the log", func() bool { return said("server ready") == 2 && said("client's session ended") == 1 })

	told := map[string][]string{}
	events, _, _ := w.host.Events().Since(0)
	for _, e := range events {
		switch {
		case e.Session != nil && e.To == "" && e.Session.Kind == clientSession && e.Session.Client == "test":
			told[e.Session.ID] = append(told[e.Session.ID], e.Session.From+" "+e.Session.To)
		case e.Server != "":
			told["server"] = append(told["server"], e.From+" "+e.To)
		}
	}
	ids["server"] = true
	for id := range ids {
		want := []string{"ready reconnecting", "reconnecting ready"}
		if id == "server" {
			want = append([]string{"connecting ready"}, want...)
		}
		if !slices.Equal(told[id], want) {
			t.Errorf("of %s the events say %q, want %q", id, told[id], want)
		}
	}
	if len(told) != 3 {
		t.Errorf("the events say %q", told)
	}
	logged := map[string][]string{}
	lines, _, _ := w.host.Logs().Since(0)
	for _, l := range lines {
		fields := map[string]string{}
		for _, f := range l.Fields {
			fields[f.Key] = f.Value
		}
		if fields["generation"] == "" {
			continue
		}
		id := cmp.Or(fields["session"], "server")
		logged[id] = append(logged[id], l.Message)
		if (fields["state"] == "") != (id != "server") || (fields["client"] == "test") != (id != "server") {
			t.Errorf("a line of %s: %+v", id, l)
		}
	}
	delete(ids, "server")
	ended := 0
	for id := range ids {
		n := len(logged[id])
		if n < 3 || logged[id][0] != "client's session ready" {
			t.Errorf("of %s the log says %q", id, logged[id])
		} else if logged[id][n-1] == "client's session ended" {
			ended++
		}
	}
	if want := []string{"server ready", "server reconnecting", "server ready"}; !slices.Equal(logged["server"], want) || ended != 1 {
		t.Errorf("the log says %q", logged)
	}
}

// join lets a client in over the admin socket, with a protocol of its own or
// the newest. What it returns besides tells how its connection ended.
func (w *world) join(c *admin.Client, protocol string) (*client, <-chan error) {
	t := w.t
	t.Helper()
	joint, err := c.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	in, clientOut := io.Pipe()
	clientIn, out := io.Pipe()
	piped := make(chan error, 1)
	go func() {
		piped <- joint.Pipe(t.Context(), in, out)
		out.Close()
		in.Close()
	}()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).
		Connect(t.Context(), &mcp.IOTransport{Reader: clientIn, Writer: clientOut}, &mcp.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		t.Fatal(err)
	}
	return &client{ClientSession: session, t: t}, piped
}

// TestJoin lets a client in over the admin socket: it shares the servers with
// those that come over HTTP, and hears when the host ends.
func TestJoin(t *testing.T) {
	w := start(t, false, block("s", "s", "", ""))
	other := w.client()
	c, err := admin.Shared(t.Context(), w.path)
	if err != nil {
		t.Fatal(err)
	}
	joined, piped := w.join(c, "")
	if a, b := joined.mark("s"), other.mark("s"); a != b {
		t.Errorf("the joined client has %q, the other %q", a, b)
	}
	if n := w.host.Status().Clients; n != 1 { // the other's protocol knows no sessions
		t.Errorf("%d clients have sessions, want 1", n)
	}
	w.stop()
	if err := <-piped; err != admin.ErrHostGone {
		t.Errorf("the host stopped: %v", err)
	}
	_ = joined.Close() // its connection has gone
}

// TestPluginsDebugLines: operators see what a plugin logs at level debug, though
// the host's own log is at info, and no more than that.
func TestPluginsDebugLines(t *testing.T) {
	w := start(t, false, block("s", "here", "", ""))
	w.await("the plugin's line", func() bool {
		lines, _, _ := w.host.Logs().Since(0)
		return slices.ContainsFunc(lines, func(l admin.Line) bool {
			return l.Server == "s" && l.Level == "debug" && l.Message == "about to connect mark=here"
		})
	})
	if text := w.text(); strings.Contains(text, "anybody wants to know") {
		t.Errorf("there are lines of level trace: %s", text)
	}
}
