package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/plugintest"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// alive reports whether a process runs (and is no zombie).
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return rest != "" && rest[0] != 'Z' && rest[0] != 'X'
}

// descendant returns the pid that the server has told on stderr, of its
// "grandchild" or its "daemon".
func descendant(t *testing.T, s *plugintest.Session, which string) int {
	t.Helper()
	pid, err := strconv.Atoi(s.AwaitLog(which + " "))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func serverPid(t *testing.T, s *plugintest.Session) int {
	t.Helper()
	pid, err := strconv.Atoi(rawjson.Unquote(rawjson.Get(mustElement(t, rawjson.Get(s.Tool("pid", `{}`).GetResult(), "content")), "text")))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// A grandchild that holds every pipe must not hide the server's death.
func TestHeldPipes(t *testing.T) {
	s := open(t, launch(t), "grandchild=1000")
	held := descendant(t, s, "grandchild")
	pid := serverPid(t, s)
	if got := s.Init.GetProcessId(); got != int64(pid) {
		t.Errorf("the server's process is %d, and the plugin says %d", pid, got)
	}
	began := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	end := s.AwaitEnd()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the end took %v", took)
	}
	if !strings.Contains(end.GetMessage(), "killed") {
		t.Errorf("got %v", end)
	}
	if alive(held) {
		t.Error("the grandchild lives on")
	}
}

// Nothing of the tree is left, whatever ends the session.
func TestTreeIsGone(t *testing.T) {
	for _, c := range []struct {
		name, crimes string
		end          func(*plugintest.Process, *plugintest.Session)
	}{
		{"close", "grandchild=1000", func(_ *plugintest.Process, s *plugintest.Session) { s.CloseSession(); s.AwaitEnd() }},
		{"stubborn", "grandchild=1000 stubborn", func(_ *plugintest.Process, s *plugintest.Session) { s.CloseSession(); s.AwaitEnd() }},
		{"daemon", "daemon=1000", func(_ *plugintest.Process, s *plugintest.Session) { s.CloseSession(); s.AwaitEnd() }},
		{"daemon of a killed server", "daemon=1000", func(_ *plugintest.Process, s *plugintest.Session) {
			_ = syscall.Kill(serverPid(t, s), syscall.SIGKILL)
			s.AwaitEnd()
		}},
		{"daemon and lifeline", "daemon=1000 stubborn", func(p *plugintest.Process, s *plugintest.Session) { p.CutLifeline(); <-p.Exited() }},
		{"stop", "grandchild=1000 stubborn", func(p *plugintest.Process, s *plugintest.Session) {
			_, _ = p.Stop(t.Context(), &transportpb.StopRequest{}) // the exit is what counts
			<-p.Exited()
		}},
		{"lifeline", "grandchild=1000 stubborn", func(p *plugintest.Process, s *plugintest.Session) { p.CutLifeline(); <-p.Exited() }},
		{"SIGTERM", "grandchild=1000 stubborn", func(p *plugintest.Process, s *plugintest.Session) {
			_ = syscall.Kill(p.Pid(), syscall.SIGTERM)
			<-p.Exited()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := launch(t)
			s := open(t, p, c.crimes)
			if s.Init == nil {
				t.Fatal(s.AwaitEnd())
			}
			which, _, _ := strings.Cut(c.crimes, "=")
			held, pid := descendant(t, s, which), serverPid(t, s)
			began := time.Now()
			c.end(p, s)
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the end took %v", took)
			}
			if alive(held) || alive(pid) {
				t.Errorf("left behind: descendant %v, server %v", alive(held), alive(pid))
			}
		})
	}
}

// One process of the plugin may look after several servers. The end of one must
// leave the others' processes alone, and the end of the last leaves nothing.
func TestTreesOfSeveral(t *testing.T) {
	p := launch(t)
	first, second := open(t, p, "daemon=1000"), open(t, p, "grandchild=1000 daemon=1001")
	if first.Init == nil || second.Init == nil {
		t.Fatal("no session")
	}
	orphan := descendant(t, first, "daemon")
	child, other := descendant(t, second, "grandchild"), descendant(t, second, "daemon")
	pid := serverPid(t, second)
	first.CloseSession()
	first.AwaitEnd()
	for _, one := range []int{child, other, pid} {
		if !alive(one) {
			t.Error("the end of a server took processes of another along")
		}
	}
	second.CloseSession()
	second.AwaitEnd()
	for _, one := range []int{orphan, child, other, pid} {
		if alive(one) {
			t.Errorf("process %d is left behind", one)
		}
	}
}

// The death of the server is seen while nothing is going on.
func TestKilledWhileIdle(t *testing.T) {
	s := open(t, launch(t), "good")
	pid := serverPid(t, s)
	began := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	end := s.AwaitEnd()
	if took := time.Since(began); !end.GetRetryable() || !strings.Contains(end.GetMessage(), "killed by signal 9") || took > 5*time.Second {
		t.Errorf("after %v: %v", took, end)
	}
}

// A call to a process that was just killed says how that ended, though the
// session has not ended yet: a grandchild may hold the pipes.
func TestWriteToTheKilled(t *testing.T) {
	p := &starter{}
	c, err := p.dial(t.Context(), shared.Session{Logger: hclog.NewNullLogger()}, config{
		Command: os.Args[0], Env: map[string]string{envServer: "good"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	proc := c.(*conn).proc
	if err := proc.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-proc.exited
	m := jsonrpc.Message{ID: json.RawMessage("1"), Method: "ping"}
	for range 2 { // the second is refused for the failure of the first
		err = c.Write(t.Context(), &m)
		failed, ok := errors.AsType[*shared.WriteError](err)
		if !ok || failed.Message != "the server's process was killed by signal 9 (killed)" || failed.Delivered != transportpb.TransportError_DELIVERED_NO {
			t.Errorf("got %#v", err)
		}
	}
}
