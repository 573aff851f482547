package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/host/admin"
)

// operated is a host that operators can ask. It does nothing.
type operated struct {
	events *admin.Feed[admin.Event]
	logs   *admin.Feed[admin.Line]
	status admin.Status
	wrong  bool // its configuration, for dry runs too
	woken  atomic.Bool
}

func (o *operated) Info() admin.Info { return o.status.Host }

// Status says, once a reconnect was asked for, that it has been and gone.
func (o *operated) Status() admin.Status {
	s := o.status
	if o.woken.Load() {
		s.Servers = slices.Clone(s.Servers)
		for i := range s.Servers {
			s.Servers[i].Changed = s.Servers[i].Changed.Add(time.Second)
		}
	}
	return s
}
func (o *operated) Events() *admin.Feed[admin.Event] { return o.events }
func (o *operated) Logs() *admin.Feed[admin.Line]    { return o.logs }
func (o *operated) Joinable() error                  { return nil }

func (o *operated) Reconnect(_ string, servers ...string) ([]string, error) {
	o.woken.Store(true)
	if len(servers) == 0 {
		return []string{"files", "tickets"}, nil
	}
	return servers, admin.Known(o.status, servers[0])
}

func (o *operated) Park(_, server string) error { return admin.Known(o.status, server) }

func (o *operated) Preview(ctx context.Context, path string) (admin.Changes, error) {
	return admin.Changes{DryRun: true, Added: []string{filepath.Base(path)}}, nil
}

func (o *operated) Reload(_ context.Context, _ string, dryRun bool) (admin.Changes, error) {
	if !dryRun || o.wrong {
		return admin.Changes{}, &admin.Error{Code: admin.Refused, Message: "wrong", Text: "Error: it is wrong\n"}
	}
	return admin.Changes{
		DryRun: true, Added: []string{"new"}, Removed: []string{"old"}, Restart: []string{"listen address"},
		Replaced: []admin.Change{{Server: "files", Settings: []string{"transport url", "timeouts"}}},
		Updated:  []admin.Change{{Server: "tickets", Settings: []string{"tools"}}},
	}, nil
}

// Join answers the first line and ends.
func (o *operated) Join(_ context.Context, conn io.ReadWriteCloser) error {
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(conn, "you said "+line)
	return err
}

// operate runs a host that operators can ask, and returns the path of its
// configuration.
func operate(t *testing.T) string {
	t.Helper()
	return operateAt(t, "http://127.0.0.1:7717/mcp", "# nothing\n")
}

// operateAt runs one that says it serves clients at url.
func operateAt(t *testing.T, url, config string) string {
	t.Helper()
	run, err := os.MkdirTemp("", "h") // t.TempDir is too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	t.Setenv("XDG_RUNTIME_DIR", run)
	t.Setenv("TMPDIR", run) // no other host of this machine is found
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	path := filepath.Join(t.TempDir(), "config.hcl")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-90 * time.Second)
	soon := time.Now().Add(time.Hour + 5*time.Minute + 30*time.Second)
	o := &operated{wrong: config == "wrong", events: admin.NewFeed[admin.Event](5, 1<<16), logs: admin.NewFeed[admin.Line](5, 1<<16), status: admin.Status{
		Host:  admin.Info{Version: "v9", PID: 42, Config: path, URL: url, Started: at},
		Ready: true, Clients: 2,
		Servers: []admin.Server{
			{
				Name: "files", Transport: "stdio", State: "ready", Since: at, Reason: "session initialised and listed", Left: 5,
				Sessions: 1, Starts: 3, Breaker: admin.Breaker{State: "closed"},
				Peer:  &admin.Peer{Protocol: "2025-11-25", PID: 4711, Plugin: 4710},
				Calls: admin.Calls{Total: 10, Failed: 2, InFlight: 1}, Catalog: admin.Catalog{Live: true, Tools: 7},
			},
			{
				Name: "tickets", Transport: "http", State: "parked", Since: at, Reason: "refused\x1b[2J\nconnection", NextAttempt: &soon,
				Breaker: admin.Breaker{State: "open", RetryAfter: 12},
				Catalog: admin.Catalog{Quarantined: []admin.Problem{{List: "tools", Name: "odd", Reason: "its schema is no object"}}},
			},
		},
	}}
	o.events.Add(func(seq uint64) admin.Event {
		next := at.Add(2 * time.Second)
		return admin.Event{Seq: seq, At: at, Server: "files", From: "ready", To: "reconnecting", Reason: "it died", Error: "exit 3", Next: &next}
	})
	o.events.Add(func(seq uint64) admin.Event {
		return admin.Event{Seq: seq, At: at, Server: "files", From: "reconnecting", To: "reconnecting", Attempt: 1, Reason: "no such file", Error: "no such file", Repeated: 3}
	})
	o.logs.Add(func(seq uint64) admin.Line {
		return admin.Line{Seq: seq, At: at, Level: "debug", Server: "files", Message: "the server's stderr", Fields: []admin.Field{{Key: "line", Value: "two words"}}}
	})
	socket, err := admin.Listen(admin.Dir(""), path, true)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- admin.Serve(ctx, socket.Listener, o, hclog.NewNullLogger()) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		socket.Close()
	})
	return path
}

// TestStatusOfMissingFile says that the host goes on without it.
func TestStatusOfMissingFile(t *testing.T) {
	var b strings.Builder
	(&statusView{}).head(&b, admin.Status{Missing: &admin.Missing{Since: time.Now().Add(-2 * time.Minute), Why: "it is gone"}})
	if want := "it is gone, as was seen 2m0s ago; the host goes on"; !strings.Contains(b.String(), want) {
		t.Errorf("printed %q, without %q", b.String(), want)
	}
}

// TestStatusOfChange says which server waits for its new session.
func TestStatusOfChange(t *testing.T) {
	var b strings.Builder
	v := &statusView{}
	s := admin.Server{Name: "a", Next: &admin.Next{
		Since: time.Now().Add(-3 * time.Second), Settings: []string{"transport url"}, State: "connecting", Failed: 1, LastError: "refused",
	}}
	v.head(&b, admin.Status{Servers: []admin.Server{s}})
	v.detail(&b, s)
	for _, want := range []string{
		"being applied for 3s: a, its new session is connecting, attempt 2; last error: refused\n",
		"changed       3s ago (transport url); its new session is connecting, attempt 2; last error: refused\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("printed\n%s\nwithout %q", b.String(), want)
		}
	}
}

// TestOperatorCommands runs each command and looks at what it prints.
func TestOperatorCommands(t *testing.T) {
	path := operate(t)
	for _, tt := range []struct {
		args string
		code int
		want []string // in stdout and stderr
	}{
		{"status", 0, []string{
			"hermes-host v9, ready at http://127.0.0.1:7717/mcp, up 1m3", "process 42, 2 clients",
			"SERVER   TRANSPORT  STATE   SINCE  LEFT  NEXT   BREAKER   SESSIONS  CALLS   TOOLS  WHY",
			"files    stdio      ready   1m3", "closed    1/3       10/2/1  7      session initialised and listed",
			"tickets  http       parked  1m3", "1h05m  open 12s  0/0       0/0/0   0      refused[2J connection",
		}},
		{"status tickets", 0, []string{"state         parked for 1m3", "next attempt  in 1h05m", `left out      tools "odd": its schema is no object`}},
		{"status files", 0, []string{"process       4711, of plugin 4710\n"}},
		{"status files -o json", 0, []string{`"pid": 4711`, `"pluginPid": 4710`}},
		{"status tickets -o json", 0, []string{`"name": "tickets"`, `"retryAfterSeconds": 12`}},
		{"status tickts", 1, []string{`there is no server "tickts"; did you mean tickets?`}},
		{"status a b", 2, []string{"name one server at most"}},
		{"reconnect --all", 0, []string{"files: reconnect requested\ntickets: reconnect requested\n"}},
		{"reconnect", 2, []string{"name the servers, or use --all"}},
		{"reconnect x", 1, []string{`there is no server "x"; the servers are files, tickets`}},
		{"park files", 0, []string{`files: parked until "hermes-host reconnect files"`}},
		{"reload", 1, []string{"Error: it is wrong\nhermes-host: the configuration was refused"}},
		{"reload -o json", 1, []string{`"error": {`, `"code": "refused"`, `"message": "wrong"`}},
		{"reload -o json --socket /no/such.sock", 4, []string{`"code": "failed"`, `"message": "no host answers at /no/such.sock`}},
		{"reload --dry-run", 0, []string{
			"- old: removed\n+ new: added\n~ files: new session (transport url, timeouts)\n~ tickets: lists only (tools)\n" +
				"! listen address: needs a restart of the host\nnothing was applied: this was a dry run\n",
		}},
		{"reload --dry-run --file operator_test.go", 0, []string{"+ operator_test.go: added\nnothing was applied"}},
		{"reload --dry-run --file none.hcl", 1, []string{"there is no configuration file none.hcl"}},
		{"reload --file operator_test.go", 2, []string{"--file goes with --dry-run"}},
		{"reload x.hcl", 2, []string{"another file is named with --dry-run --file"}},
		{"park", 2, []string{"hermes-host: name the server\n"}},
		{"help nix", 2, []string{`unknown command "nix"`}},
		{"help park", 0, []string{"Ends the session of a server"}},
		{"completion foo", 2, []string{`unknown command "foo"`}},
		{"completion", 0, []string{"autocompletion script"}},
		{"completion bash", 0, []string{"__start_hermes-host"}},
		{"validate nofile.hcl", 1, []string{"hermes-host: there is no configuration file nofile.hcl\n"}},
		{"validate a.hcl -c b.hcl", 2, []string{"name one configuration file, once"}},
		{"events", 0, []string{" files: ready -> reconnecting: it died (exit 3); next attempt in 2s\n",
			" files: reconnecting: attempt 1 failed: no such file; before that, failures as earlier ones: 3\n"}},
		{"events tickets -o json", 0, nil},
		{"events -n 1", 0, []string{"attempt 1 failed"}},
		{"events -n 0", 0, nil},
		{"events -n all", 0, []string{"ready -> reconnecting", "attempt 1 failed"}},
		{"events -n -1", 2, []string{`hermes-host: invalid argument "-1" for "-n, --last" flag: it is a number from 0 up, or "all"` + "\n"}},
		{"logs -n few", 2, []string{`it is a number from 0 up, or "all"`}},
		{"logs -n 0 -o json", 0, nil},
		{"logs files", 0, []string{` [DEBUG] files: the server's stderr line="two words"` + "\n"}},
		{"logs -o json", 0, []string{`"fields":[{"key":"line","value":"two words"}]}` + "\n"}},
		{"status -c /no/such/file.hcl", 4, []string{"no host is running with /no/such/file.hcl; these are:", path}},
		{"status --socket /no/such.sock", 4, []string{"hermes-host: no host answers at /no/such.sock: no such file or directory\n"}},
	} {
		var out strings.Builder
		if code := execute(t.Context(), strings.Fields(tt.args), strings.NewReader(""), &out, &out); code != tt.code {
			t.Errorf("%s: exit code %d, want %d", tt.args, code, tt.code)
		}
		for _, want := range tt.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s printed\n%s\nwithout %q", tt.args, out.String(), want)
			}
		}
		if tt.want == nil && out.Len() > 0 {
			t.Errorf("%s printed %q", tt.args, out.String())
		}
	}
}

// TestReconnectWaits until each server is ready or parked again, and fails if
// one is parked.
func TestReconnectWaits(t *testing.T) {
	for args, want := range map[string]struct {
		code int
		text string
	}{
		"reconnect --wait files": {0, "files: ready after 0s\n"},
		"reconnect --wait --all": {exitError, "files: ready after 0s\ntickets: parked: refused[2J connection\nhermes-host: 1 of 2 servers are not ready\n"},
	} {
		t.Run(args, func(t *testing.T) {
			operate(t)
			if out := command(t, want.code, strings.Fields(args)...); out != want.text {
				t.Errorf("printed %q, want %q", out, want.text)
			}
		})
	}
}

// TestDryRunRefused does not say that anything was done.
func TestDryRunRefused(t *testing.T) {
	operateAt(t, "", "wrong")
	if out := command(t, exitError, "reload", "--dry-run"); out != "Error: it is wrong\nhermes-host: the configuration would be refused\n" {
		t.Errorf("printed %q", out)
	}
}

// TestNoHost tells that no host runs by exit code 4.
func TestNoHost(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, args := range []string{"status", "reconnect --all", "park x", "reload", "logs", "events -f"} {
		var out strings.Builder
		code := execute(t.Context(), strings.Fields(args), strings.NewReader(""), &out, &out)
		if code != exitUnreachable || !strings.Contains(out.String(), `no host is running; start one with "hermes-host run"`) {
			t.Errorf("%s: exit code %d, %q", args, code, out.String())
		}
	}
}

// TestAddressInUse: who can't listen hears of --listen, and of the host that is in
// its way.
func TestAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := l.Addr().String()
	for running, want := range map[string]string{
		"127.0.0.1:1": "; stop what uses the address, or take another one with --listen or ",
		at:            ": a hermes-host has it (process 42, with ",
	} {
		path := operateAt(t, "http://"+running+"/mcp", "# nothing\n")
		var out strings.Builder
		code := execute(t.Context(), []string{"run", "-c", path, "--listen", at}, strings.NewReader(""), &out, &out)
		if code != exitError || !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "--listen") {
			t.Errorf("exit code %d: %s", code, out.String())
		}
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"127.0.0.1:1", "127.0.0.1:1", true}, {"127.0.0.1:1", "127.0.0.1:2", false}, {"127.0.0.1:1", "10.0.0.1:1", false},
		{"127.0.0.1:1", "localhost:1", true}, {"[::]:1", "10.0.0.1:1", true}, {":1", "10.0.0.1:1", true}, {"", "", false},
	} {
		if got := overlap(c.a, c.b); got != c.want {
			t.Errorf("%s and %s overlap: %v", c.a, c.b, got)
		}
	}
}

// TestStdioJoins carries bytes to a running host, and fails when that ends.
func TestStdioJoins(t *testing.T) {
	path := operate(t)
	in, typing := io.Pipe()
	defer typing.Close()
	go fmt.Fprintln(typing, "hello")
	var out, log strings.Builder
	code := execute(t.Context(), []string{"stdio", "-c", path}, in, &out, &log)
	if code != exitError || out.String() != "you said hello\n" {
		t.Errorf("exit code %d, output %q", code, out.String())
	}
	for _, want := range []string{"joined a running host", "of another version", "has ended; restart the client"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log is without %q:\n%s", want, log.String())
		}
	}
}

// TestTable shows what a count would mislead about: attempts that nobody makes,
// tools that nobody sees, and moments that are past.
func TestTable(t *testing.T) {
	past, later := time.Now().Add(-time.Second), time.Now().Add(90*time.Minute+time.Second)
	long := strings.Repeat("long ", 100) + "end"
	servers := []admin.Server{
		{Name: "a", State: "parked", Left: 5, Catalog: admin.Catalog{Tools: 7}, Reason: "parked by an operator"},
		{Name: "b", State: "disabled", Left: 5, Reason: "disabled in the configuration"},
		{Name: "c", State: "connecting", Left: 3, Failed: 2, NextAttempt: &past, Reason: "not started yet"},
		{Name: "d", State: "connecting", Left: 4, Failed: 1, NextAttempt: &later, Reason: "not started yet"},
		{Name: "e", State: "parked", NextAttempt: &later, Reason: "died", LastError: long, LastErrorAt: &past},
	}
	show := func(width int) []string {
		var b strings.Builder
		(&statusView{width: width}).table(&b, servers)
		return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")[1:]
	}
	lines := show(0)
	for i, want := range [][]string{
		{" -     -     ", "  0 (7 known)  parked by an operator"},
		{" -     -     ", "disabled in the configuration"},
		{" 3     now   ", "connecting, attempt 3"},
		{" 4     1h30m ", "waiting for attempt 2"},
		{" 0     1h30m ", long},
	} {
		for _, text := range want {
			if !strings.Contains(lines[i], text) {
				t.Errorf("line %q is without %q", lines[i], text)
			}
		}
	}
	for _, line := range show(90) {
		if n := len([]rune(line)); n > 90 {
			t.Errorf("a line of %d columns on a terminal of 90", n)
		}
	}
	const reasonOfG = `config.hcl:15:23: no such command: "npxx" is in no directory of PATH; give its full path, or set PATH in env`
	servers = []admin.Server{
		{Name: "f", Transport: "stdio", State: "ready", Left: 5, Breaker: admin.Breaker{State: "closed"}, Catalog: admin.Catalog{Live: true, Tools: 12},
			Reason: "session initialised and listed", LastError: long, LastErrorAt: &past, Advice: "matches nothing: deny \"x\""},
		{Name: "gggggggggg", Transport: "stdio", State: "parked", Breaker: admin.Breaker{State: "open", RetryAfter: 58}, Catalog: admin.Catalog{Tools: 3}, Reason: reasonOfG},
		servers[3], servers[4],
	}
	for i := range servers {
		servers[i].Since = past
	}
	for width, want := range map[int][]string{
		// On a terminal of the usual width the counts are there, and the reasons below.
		80: {
			"SERVER TRANSPORT STATE SINCE BREAKER SESSIONS CALLS TOOLS", "f stdio ready 1s closed 0/0 0/0/0 12", "advice: matches nothing: deny \"x\"",
			"gggggggggg stdio parked 1s open 58s 0/0 0/0/0 0 (3 known)", reasonOfG,
			"d - connecting", "waiting for attempt 2; next attempt in 1h30m; 4 attempts left",
			"e - parked", "died; last error 1s ago: long long", "long …",
		},
		140: {"LEFT NEXT BREAKER SESSIONS CALLS TOOLS WHY", "12 session initialised and listed; last error", "…", "0 (3 known)", reasonOfG, "waiting for attempt 2"},
		30:  {"SERVER STATE", "config.hcl:15:23"},
	} {
		var b strings.Builder
		(&statusView{width: width}).table(&b, servers)
		text := strings.Join(strings.Fields(b.String()), " ")
		for _, part := range want {
			_, rest, found := strings.Cut(text, part)
			if !found {
				t.Fatalf("at %d columns there is no %q, or not in its place:\n%s", width, part, b.String())
			}
			text = rest
		}
		for _, line := range strings.Split(b.String(), "\n") {
			if n := len([]rune(line)); n > width {
				t.Errorf("a line of %d columns on a terminal of %d: %s", n, width, line)
			}
		}
	}
	var b strings.Builder
	(&statusView{}).detail(&b, servers[1])
	if text := b.String(); strings.Contains(text, "before it parks") {
		t.Errorf("attempts are left to a server that makes none:\n%s", text)
	}
	b.Reset()
	(&statusView{}).detail(&b, admin.Server{Clients: 51, Sessions: 3, Starts: 9, ClientSessions: []admin.ClientSession{{
		ID: "abc123", Client: "Inspector", State: "ready", Since: past, PID: 8, Plugin: 7, Calls: admin.Calls{Total: 4, Failed: 1},
	}}})
	for _, want := range []string{
		"3 up, 9 so far, generation 0; 51 that clients have for themselves\n",
		"of a client   session abc123 of Inspector: ready for 1s; process 8, of plugin 7; calls 4, of which 1 failed; 0 in flight\n",
		"… and 50 more\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the detail is without %q:\n%s", want, b.String())
		}
	}
	died := admin.Event{At: past, Server: "a", Reason: "it died", Session: &admin.Aside{
		Kind: "client's session", ID: "abc123", Client: "Inspector", From: "ready", To: "reconnecting",
	}}
	if text := textOfEvent(died); !strings.HasSuffix(text, " a, client's session abc123 (Inspector): ready -> reconnecting: it died") {
		t.Errorf("the death of a client's session: %q", text)
	}
	aside := admin.Event{At: past, Server: "a", Reason: "changed", Session: &admin.Aside{Kind: "earlier session", From: "ready", To: "stopped"}}
	if text := textOfEvent(aside); !strings.HasSuffix(text, " a, earlier session: ended: changed") {
		t.Errorf("the end of an earlier session: %q", text)
	}
	event := textOfEvent(admin.Event{At: past, Server: "a", Next: &past})
	if !strings.HasSuffix(event, "; next attempt now") {
		t.Errorf("an event with an attempt at once: %q", event)
	}
}

// TestNothingHasChanged says so only if it is the whole truth.
func TestNothingHasChanged(t *testing.T) {
	just := &admin.Reloaded{At: time.Now().Add(-3 * time.Second), By: "a change of its file"}
	refused := &admin.Reloaded{At: just.At, By: just.By, Error: "wrong"}
	earlier := &admin.Reloaded{At: time.Now().Add(-time.Hour), By: just.By}
	restart := admin.Changes{Restart: []string{"listen address"}}
	for _, tt := range []struct {
		changes admin.Changes
		before  *admin.Reloaded
		want    string
	}{
		{admin.Changes{}, nil, "nothing has changed\n"},
		{admin.Changes{}, earlier, "nothing has changed\n"},
		{admin.Changes{}, refused, "nothing has changed\n"},
		{admin.Changes{}, just, "nothing has changed since the configuration was read 3s ago (a change of its file)\n"},
		{restart, just, "! listen address: needs a restart of the host\n"},
		{admin.Changes{Waiting: []admin.Change{{Server: "a", Settings: []string{"prefix"}, Trouble: "it is parked"}}, Dropped: []string{"b"}}, just,
			"~ a: new session (prefix), begun before\n~ b: keeps its session, what was changed before is as it was\na: it is parked\n"},
	} {
		var b strings.Builder
		if err := printChanges(&b, tt.changes, tt.before); err != nil || b.String() != tt.want {
			t.Errorf("%+v after %+v: %q, %v", tt.changes, tt.before, b.String(), err)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 140 * time.Millisecond: "100ms", 61 * time.Second: "1m1s", 90 * time.Minute: "1h30m", 50 * time.Hour: "2d02h",
	} {
		if got := span(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
