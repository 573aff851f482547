package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A fake is a host without servers that do anything.
type fake struct {
	info   Info
	events *Feed[Event]
	logs   *Feed[Line]

	mu      sync.Mutex
	status  Status
	orders  []string
	refusal error // of Joinable
	reload  func(dryRun bool) (Changes, error)
}

func newFake(config string) *fake {
	return &fake{
		info:   Info{Version: "v1", PID: 7, Config: config, URL: "http://127.0.0.1:1/mcp"},
		events: NewFeed[Event](10, 1<<16),
		logs:   NewFeed[Line](10, 1<<16),
		status: Status{Servers: []Server{{Name: "files", State: "ready"}, {Name: "tickets", State: "parked"}}},
		reload: func(dryRun bool) (Changes, error) { return Changes{DryRun: dryRun, Added: []string{"x"}}, nil },
	}
}

func (f *fake) Info() Info { return f.info }

func (f *fake) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.status
	s.Host = f.info
	s.Servers = append([]Server(nil), s.Servers...)
	return s
}

func (f *fake) Events() *Feed[Event] { return f.events }
func (f *fake) Logs() *Feed[Line]    { return f.logs }

func (f *fake) order(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.orders = append(f.orders, fmt.Sprintf(format, args...))
}

func (f *fake) Reconnect(by string, servers ...string) ([]string, error) {
	for _, name := range servers {
		if err := Known(f.Status(), name); err != nil {
			return nil, err
		}
	}
	if len(servers) == 0 {
		servers = []string{"files", "tickets"}
	}
	f.order("reconnect %s by %s", strings.Join(servers, "+"), by)
	return servers, nil
}

func (f *fake) Park(by, server string) error {
	if err := Known(f.Status(), server); err != nil {
		return err
	}
	f.order("park %s by %s", server, by)
	return nil
}

func (f *fake) Reload(_ context.Context, by string, dryRun bool) (Changes, error) {
	f.order("reload by %s", by)
	return f.reload(dryRun)
}

func (f *fake) Preview(_ context.Context, path string) (Changes, error) {
	f.order("preview of %s", path)
	return f.reload(true)
}

func (f *fake) Joinable() error { return f.refusal }

// Join answers each line with the same in capitals, and "END" with its end.
func (f *fake) Join(ctx context.Context, conn io.ReadWriteCloser) error {
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if lines.Text() == "end" {
			return nil
		}
		if _, err := fmt.Fprintln(conn, strings.ToUpper(lines.Text())); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(conn, "BYE")
	return errors.Join(err, lines.Err())
}

// serve makes a socket for a fake, serves it, and returns a client of it. The
// server ends with the test, or when stop is called.
func serve(t *testing.T, f *fake) (c *Client, stop func()) {
	t.Helper()
	dir := filepath.Join(runtimeDir(t), dirName)
	socket, err := Listen(dir, f.info.Config, true)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, socket.Listener, f, hclog.NewNullLogger()) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("serving: %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("the server does not end")
		}
		if err := socket.Close(); err == nil {
			t.Error("the socket was still open after Serve")
		}
	})
	t.Cleanup(stop)
	return NewClient(socket.Path), stop
}

// runtimeDir is a short directory that stands for $XDG_RUNTIME_DIR, the same
// for the whole test.
func runtimeDir(t *testing.T) string {
	t.Helper()
	if dir := runtimeDirs[t.Name()]; dir != "" {
		return dir
	}
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Setenv("TMPDIR", t.TempDir())
	runtimeDirs[t.Name()] = dir
	t.Cleanup(func() { delete(runtimeDirs, t.Name()) })
	return dir
}

var runtimeDirs = map[string]string{}
