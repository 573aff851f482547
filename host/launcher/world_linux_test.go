package launcher

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/hermes-host/hermes-host/host/session"
)

// This file has what the tests with real processes share.

// world is a launcher with a check, after the test, that it left nothing: no
// child, no goroutine, no directory.
type world struct {
	*Launcher
	t   *testing.T
	dir string
	log *buffer
}

func newWorld(t *testing.T, commands map[string]Command, tune ...func(*timing)) *world {
	t.Helper()
	return newWorldWith(t, Settings{Commands: commands}, tune...)
}

func newWorldWith(t *testing.T, settings Settings, tune ...func(*timing)) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "hh")
	if err != nil {
		t.Fatal(err)
	}
	timing := quick()
	for _, f := range tune {
		f(&timing)
	}
	log := &buffer{}
	settings.Logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: log, Name: "host"})
	settings.PluginDirs, settings.RunDir, settings.timing = []string{t.TempDir()}, dir, timing
	settings.ClientInfo = json.RawMessage(`{"name":"test","version":"0"}`)
	l, err := New(settings)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Launcher: l, t: t, dir: dir, log: log}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		l.Close(ctx)
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("left behind in the run directory: %v", left)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		for _, pid := range children(t) {
			t.Errorf("child left: %s", pid)
		}
		goleak.VerifyNone(t)
		if t.Failed() {
			t.Logf("log:\n%s", log.String())
		}
	})
	return w
}

// children are the processes below the test.
func children(t *testing.T) []string {
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
		for _, pid := range strings.Fields(string(data)) {
			name, _ := os.ReadFile("/proc/" + pid + "/cmdline")
			all = append(all, fmt.Sprintf("%s %q", pid, name))
		}
	}
	return all
}

func (w *world) connect(s script) session.Session {
	w.t.Helper()
	c, err := w.dial(w.t.Context(), s, &ear{})
	if err != nil {
		w.t.Fatalf("connect: %v", err)
	}
	return c
}

func (w *world) dial(ctx context.Context, s script, h session.Handler) (session.Session, error) {
	config, err := json.Marshal(s)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.Transport(Spec{Server: "x", Kind: "fake", Config: config}).Connect(ctx, h)
}

// pids of a session's plugin and its child.
func (w *world) pids(s session.Session) (plugin, child int) {
	w.t.Helper()
	r, err := s.Call(w.t.Context(), session.Request{Method: "pids"})
	if err != nil {
		w.t.Fatalf("pids: %v", err)
	}
	var p [2]int
	if err := json.Unmarshal(r.Result, &p); err != nil {
		w.t.Fatal(err)
	}
	return p[0], p[1]
}

func (w *world) closeWithin(s session.Session, d time.Duration) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	s.Close(ctx)
}

// ended waits for a session's end.
func ended(t *testing.T, s session.Session, within time.Duration) *session.End {
	t.Helper()
	select {
	case <-s.Done():
	case <-time.After(within):
		t.Fatalf("the session has not ended within %v", within)
	}
	return s.End()
}

// A pulse tells when a process that is no child has ended.
type pulse struct {
	t   *testing.T
	pid int
	fd  int
}

func feel(t *testing.T, pid int) pulse {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("process %d: %v", pid, err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return pulse{t, pid, fd}
}

func (p pulse) deadWithin(d time.Duration) {
	p.t.Helper()
	deadline := time.Now().Add(d)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, int(max(0, time.Until(deadline).Milliseconds())))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			p.t.Fatal(err)
		}
		if n == 0 {
			p.t.Errorf("process %d still lives after %v", p.pid, d)
			_ = unix.Kill(p.pid, unix.SIGKILL)
		}
		return
	}
}

// end returns the End in err.
func wantEnd(t *testing.T, err error, class session.Class, retryable bool, words ...string) {
	t.Helper()
	end, ok := errors.AsType[*session.End](err)
	if !ok {
		t.Fatalf("got %v, want an End", err)
	}
	if end.Class != class || end.Retryable != retryable {
		t.Errorf("got class %v, retryable %v; want %v, %v: %s", end.Class, end.Retryable, class, retryable, end.Message)
	}
	for _, word := range words {
		if !strings.Contains(end.Message, word) {
			t.Errorf("message does not say %q: %s", word, end.Message)
		}
	}
}

// An ear is a handler that keeps what it hears.
type ear struct {
	mu    sync.Mutex
	heard []string
	onAsk func(session.ServerRequest)
	note  chan string // if not nil, gets each notification's method and params
}

func (e *ear) add(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, text)
}

func (e *ear) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.heard...)
}

func (e *ear) Notification(n session.Notification) {
	text := n.Method + " " + string(n.Params)
	e.add(text)
	if e.note != nil {
		e.note <- text
	}
}

func (e *ear) Request(r session.ServerRequest) {
	if e.onAsk != nil {
		e.onAsk(r)
	}
}

func (e *ear) Log(l session.LogLine) { e.add(l.Level + ": " + l.Text) }

// buffer is a log that can be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
