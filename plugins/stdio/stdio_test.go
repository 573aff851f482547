package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/plugintest"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

func block(t testing.TB, crimes string) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"command": os.Args[0],
		"args":    nil,
		"env":     map[string]string{envServer: crimes},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func launch(t testing.TB) *plugintest.Process {
	return plugintest.Start(t, os.Args[0], envPlugin+"=1")
}

func open(t testing.TB, p *plugintest.Process, crimes string) *plugintest.Session {
	t.Helper()
	return p.Open(t, &transportpb.OpenSession{Config: []byte(block(t, crimes))})
}

func TestAcceptance(t *testing.T) {
	plugintest.Run(t, plugintest.Suite{
		Binary: os.Args[0],
		Env:    []string{envPlugin + "=1"},
		Config: func(t *testing.T) string { return block(t, "good") },
		Invalid: map[string]string{
			"command": `{"command": ""}`,
			"env":     `{"command": "sh", "env": {"A=B": "c"}}`,
			"args":    `{"command": "sh", "args": ["a\u0000b"]}`,
		},
		Unreachable: `{"command": "no-such-command-anywhere"}`,
	})
}

func TestNoSuchCommand(t *testing.T) {
	p := launch(t)
	for _, c := range []struct{ block, says, path string }{
		{`{"command": "no-such-command"}`, "PATH", "command"},
		{`{"command": "npx -y server"}`, "args", "command"},
		{`{"command": "/etc/passwd"}`, "permission", "command"},
		{`{"command": "/no/such/file"}`, "no such file", "command"},
		{`{"command": "sh", "cwd": "/no/such/dir"}`, "/no/such/dir", "cwd"},
	} {
		s := p.Open(t, &transportpb.OpenSession{Config: []byte(c.block)})
		end := s.AwaitEnd()
		if end.GetClass() != transportpb.SessionEnd_CLASS_CONFIG || end.GetRetryable() {
			t.Errorf("%s: got %v", c.block, end)
		}
		if !strings.Contains(end.GetMessage(), c.says) {
			t.Errorf("%s: %q does not say %q", c.block, end.GetMessage(), c.says)
		}
		if dirs := os.Getenv("PATH"); strings.Contains(end.GetMessage(), dirs) {
			t.Errorf("%s: the message lists all directories of PATH: %q", c.block, end.GetMessage())
		}
		if len(end.GetPath()) == 0 || end.GetPath()[0].GetAttribute() != c.path {
			t.Errorf("%s: path %v", c.block, end.GetPath())
		}
	}
}

func TestDiesDuringHandshake(t *testing.T) {
	end := open(t, launch(t), "diesAtOnce").AwaitEnd()
	if end.GetClass() != transportpb.SessionEnd_CLASS_TRANSPORT || !end.GetRetryable() {
		t.Errorf("got %v", end)
	}
	for _, part := range []string{"status 7", "cannot open the database"} {
		if !strings.Contains(end.GetMessage(), part) {
			t.Errorf("%q does not say %q", end.GetMessage(), part)
		}
	}
}

func TestModernServer(t *testing.T) {
	s := open(t, launch(t), "modern")
	if s.Init.GetProtocolVersion() != "2026-07-28" {
		t.Fatalf("got %v, %v", s.Init, s.AwaitEnd())
	}
	_, ch := s.Go("tools/call", `{"name":"meta","arguments":{},"_meta":{"progressToken":7}}`)
	meta := rawjson.Get(s.Await(ch).GetResult(), "structuredContent")
	if rawjson.Text(meta, "io.modelcontextprotocol/protocolVersion") != "2026-07-28" || string(rawjson.Get(meta, "progressToken")) != "7" {
		t.Errorf("the request's _meta is %s", meta)
	}
	s.Tool("listChanged", `{}`)
	if m := s.Unasked().GetNotification().GetMethod(); m != "notifications/tools/list_changed" {
		t.Errorf("got %q", m)
	}
}

// A server that leaves initialize unanswered gets its session before the host
// gives up, in one process, and the next one at once.
func TestSilentInitialize(t *testing.T) {
	p := launch(t)
	ask := &transportpb.OpenSession{Config: []byte(block(t, "noInitialize")), PatienceMs: 4000}
	began := time.Now()
	s := p.Open(t, ask)
	if took := time.Since(began); s.Init.GetProtocolVersion() != "2026-07-28" || took < 3*time.Second {
		t.Fatalf("after %v: %v", took, s.Init)
	}
	if r := s.Tool("echo", `{"value":1}`); r.GetResult() == nil {
		t.Errorf("got %v", r)
	}
	s.CloseSession()
	s.AwaitEnd()
	starts := 0
	for _, l := range s.Logs() {
		if l.Stderr && l.Message == "started" {
			starts++
		}
	}
	if starts != 1 {
		t.Errorf("%d processes", starts)
	}
	ask.Learnt = s.Init.Learnt
	began = time.Now()
	if s = p.Open(t, ask); s.Init.GetProtocolVersion() != "2026-07-28" || time.Since(began) > 3*time.Second {
		t.Errorf("the next session, after %v: %v", time.Since(began), s.Init)
	}
}

// A server of the MCP SDK is reached by initialize, its integers survive, and
// it sees nothing of the plugin's own environment.
func TestSDKServer(t *testing.T) {
	s := open(t, launch(t), "sdk")
	if s.Init.GetProtocolVersion() != "2025-11-25" {
		t.Fatalf("got %v", s.Init)
	}
	result := s.Tool("env", `{}`).GetResult()
	if got := string(rawjson.Get(result, "structuredContent")); got != `{"n":9007199254740993}` {
		t.Errorf("got %s", got)
	}
	env := rawjson.Unquote(rawjson.Get(mustElement(t, rawjson.Get(result, "content")), "text"))
	if !strings.Contains(env, envServer+"=sdk") || !strings.Contains(env, "PATH=") {
		t.Errorf("the environment lacks what it should have:\n%s", env)
	}
	for _, name := range []string{"HERMES_", "PLUGIN_CLIENT", "PLUGIN_PROTOCOL", "PLUGIN_UNIX"} {
		if strings.Contains(env, name) {
			t.Errorf("the server's environment has %s…", name)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	for _, size := range []int{10, 64 << 10, 1 << 20} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			s := open(b, launch(b), "good")
			args := fmt.Sprintf(`{"bytes":%d}`, size)
			s.Tool("big", args)
			for b.Loop() {
				s.Tool("big", args)
			}
		})
	}
}

func TestGarbageOnStdout(t *testing.T) {
	s := open(t, launch(t), "printsFirst")
	if s.Init == nil {
		t.Fatal(s.AwaitEnd())
	}
	s.Tool("garbage", `{}`)
	if r := s.Tool("echo", `{"value":1}`); r.GetResult() == nil {
		t.Errorf("got %v", r)
	}
	s.CloseSession()
	s.AwaitEnd()
	var text strings.Builder
	for _, l := range s.Logs() {
		text.WriteString(l.Message + "\n")
	}
	for _, part := range []string{"Server running on stdio", "listening on port"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("the log does not have %q:\n%s", part, &text)
		}
	}
}

func TestStderr(t *testing.T) {
	p := launch(t)
	s := open(t, p, "stderrFlood")
	if s.Init == nil {
		t.Fatal(s.AwaitEnd())
	}
	if r := s.Tool("stderr", `{"lines":3000}`); r.GetResult() == nil {
		t.Errorf("got %v", r)
	}
	s.GoTool("crash", `{}`)
	end := s.AwaitEnd()
	if m := end.GetMessage(); !strings.Contains(m, "status 3") || !strings.Contains(m, "line 2999") || len(m) > 5<<10 {
		t.Errorf("%d bytes: %s", len(m), m)
	}
	stderr := 0
	for _, l := range s.Logs() {
		if l.Stderr {
			stderr++
		}
	}
	if stderr == 0 {
		t.Error("no line of stderr reached the log")
	}
}

func mustElement(t *testing.T, list json.RawMessage) json.RawMessage {
	t.Helper()
	all, err := rawjson.Elements(list)
	if err != nil || len(all) == 0 {
		t.Fatal("no element", err)
	}
	return all[0]
}

// A handshake that never completes ends with the host's patience.
func TestMuteServer(t *testing.T) {
	for _, crime := range []string{"mute", "blind"} {
		p := launch(t)
		s := p.OpenAsync(t, &transportpb.OpenSession{Config: []byte(block(t, crime))})
		s.CloseSession()
		if end := s.AwaitEnd(); end.GetClass() != transportpb.SessionEnd_CLASS_CLOSED {
			t.Errorf("%s: got %v", crime, end)
		}
	}
}

// A person who starts the plugin by hand is told what it is.
func TestStartedByHand(t *testing.T) {
	c := exec.Command(os.Args[0])
	c.Env = []string{envPlugin + "=1"}
	out, err := c.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 || !strings.Contains(string(out), "hermes-host") {
		t.Errorf("%v: %s", err, out)
	}
}
