package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/hermes-host/hermes-host/host/admin"
	"github.com/hermes-host/hermes-host/host/config"
	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// The tests run a whole host with one plugin, which is this program, started
// again. Its servers live in the plugin's process.

const (
	beThePlugin = "HERMES_HOST_TEST_PLUGIN"
	beHung      = "HERMES_HOST_TEST_HUNG"
)

func TestMain(m *testing.M) {
	if os.Getenv(beHung) != "" {
		_, _ = io.Copy(io.Discard, os.Stdin) // its lifeline
		return
	}
	if os.Getenv(beThePlugin) != "" {
		shared.Serve(plugin)
		return
	}
	goleak.VerifyTestMain(m)
}

type settings struct {
	Mark   string `hcl:"mark" doc:"What the server says it is."`
	Secret string `hcl:"secret,optional" sensitive:"true" doc:"Never to be seen."`
	Broken bool   `hcl:"broken,optional" default:"false" doc:"It can't be reached."`
	Learns bool   `hcl:"learns,optional" default:"false" doc:"Sessions tell later ones of themselves."`
	Gate   string `hcl:"gate,optional" default:"" doc:"Connecting waits until this address has accepted and closed a connection."`
}

var plugin = shared.Plugin[settings]{
	Kind: "test", Version: "1", MultiSession: true, Discover: shared.DiscoverNever,
	Transport: func(ctx context.Context, about shared.Session, s settings) (mcp.Transport, error) {
		about.Logger.Debug("about to connect", "mark", s.Mark)
		about.Logger.Trace("more than anybody wants to know")
		if s.Learns {
			about.Advise(fmt.Sprintf("remembered %q; %s", about.Remembered(), s.Secret))
			about.Remember("much")
		}
		if s.Broken {
			return nil, &shared.EndError{Class: transportpb.SessionEnd_CLASS_CONFIG, Message: "broken by " + s.Secret}
		}
		if s.Gate != "" {
			if err := passGate(ctx, s.Gate); err != nil {
				return nil, err
			}
		}
		near, far := mcp.NewInMemoryTransports()
		go server(s).Run(ctx, far)
		return near, nil
	},
}

var sessions atomic.Int64

// server has the tool "mark", which tells the mark and the number of the
// session, "hold", which answers the same after passing a gate, and "other".
func server(s settings) *mcp.Server {
	srv := mcp.NewServer(&mcp.Implementation{Name: s.Mark, Version: "1"}, nil)
	mark := fmt.Sprintf("%s %d/%d", s.Mark, os.Getpid(), sessions.Add(1))
	text := func() (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: mark}}}, nil, nil
	}
	type gate struct {
		Gate string `json:"gate"`
	}
	mcp.AddTool(srv, &mcp.Tool{Name: "mark"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) { return text() })
	mcp.AddTool(srv, &mcp.Tool{Name: "other"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) { return text() })
	mcp.AddTool(srv, &mcp.Tool{Name: "hold"}, func(ctx context.Context, _ *mcp.CallToolRequest, g gate) (*mcp.CallToolResult, any, error) {
		if err := passGate(ctx, g.Gate); err != nil {
			return nil, nil, err
		}
		return text()
	})
	return srv
}

// passGate waits until a gate is opened.
func passGate(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := io.Copy(io.Discard, conn); err != nil {
		return err
	}
	return ctx.Err()
}

// A gate holds up whoever wants to pass, one at a time.
type gate struct {
	t *testing.T
	l net.Listener
}

func newGate(t *testing.T) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &gate{t, l}
}

func (g *gate) address() string { return g.l.Addr().String() }

// await waits for somebody, and returns what lets them pass.
func (g *gate) await() (open func()) {
	g.t.Helper()
	_ = g.l.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
	conn, err := g.l.Accept()
	if err != nil {
		g.t.Fatalf("nobody came to the gate: %v", err)
	}
	return func() { conn.Close() }
}

// patience bounds every wait for what is bound to happen.
const patience = 20 * time.Second

// A world is a host that runs, and its configuration.
type world struct {
	t    *testing.T
	path string
	host *Host
	stop func() // the host, and waits for it
}

// block is a server's block. In and beside are more lines of the transport and
// of the server.
func block(name, mark, in, beside string) string {
	return fmt.Sprintf("server %q {\n  transport \"test\" {\n    mark = %q\n    %s\n  }\n  %s\n}\n", name, mark, in, beside)
}

// start runs a host with server blocks and waits until all servers have
// settled.
func start(t *testing.T, watch bool, blocks ...string) *world {
	t.Helper()
	w := begin(t, watch, blocks...)
	w.await("ready", func() bool { return w.host.Status().Ready })
	return w
}

func begin(t *testing.T, watch bool, blocks ...string) *world {
	t.Helper()
	w := &world{t: t, path: filepath.Join(t.TempDir(), "config.hcl")}
	w.write(blocks...)
	load := func(path string) (*config.File, config.Diagnostics) {
		return config.Load(cmp.Or(path, w.path), config.Options{})
	}
	file, diags := load("")
	if file == nil {
		t.Fatal(diags)
	}
	run, err := os.MkdirTemp("", "h") // t.TempDir is too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	t.Setenv("XDG_RUNTIME_DIR", run)
	w.host, err = New(file, Settings{
		Logger: hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: t.Output(), Level: hclog.Info}),
		Listen: "127.0.0.1:0", PluginDirs: []string{t.TempDir()}, Admin: true, Load: load, Watch: watch,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.host.Run(ctx) }()
	ended := false
	w.stop = func() {
		cancel()
		if ended {
			return
		}
		ended = true
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("the host ended with: %v", err)
			}
		case <-time.After(patience):
			t.Error("the host does not end")
		}
	}
	t.Cleanup(w.stop)
	w.await("the admin socket", func() bool {
		_, err := admin.Shared(t.Context(), w.path)
		return err == nil
	})
	return w
}

// write writes the configuration as careful programs do: beside, and then in
// place of the old.
func (w *world) write(blocks ...string) {
	w.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	text := strings.Join(blocks, "")
	if !strings.Contains(text, "plugin \"test\"") {
		text += pluginBlock(exe, "1")
	}
	if err := os.WriteFile(w.path+".new", []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(w.path+".new", w.path); err != nil {
		w.t.Fatal(err)
	}
}

func pluginBlock(exe, value string) string {
	return fmt.Sprintf("plugin \"test\" {\n  command = %q\n  env = { %s = %q }\n}\n", exe, beThePlugin, value)
}

// await waits until something is so, looking at every event, and now and then
// for what has none.
func (w *world) await(what string, so func() bool) {
	w.t.Helper()
	late := time.After(patience)
	var last uint64
	for {
		var more <-chan struct{}
		_, last, more = w.host.Events().Since(last)
		if so() {
			return
		}
		select {
		case <-more:
		case <-time.After(20 * time.Millisecond):
		case <-late:
			w.t.Fatalf("waiting for %s in vain; status: %+v", what, w.host.Status())
		}
	}
}

// reload reloads and returns what has changed.
func (w *world) reload() admin.Changes {
	w.t.Helper()
	changes, err := w.host.Reload(w.t.Context(), "a test", false)
	if err != nil {
		w.t.Fatalf("reloading: %v", err)
	}
	return changes
}

// status returns the status of one server.
func (w *world) status(name string) admin.Server {
	w.t.Helper()
	for _, s := range w.host.Status().Servers {
		if s.Name == name {
			return s
		}
	}
	w.t.Fatalf("there is no server %q", name)
	return admin.Server{}
}

// A client is an MCP client of the host.
type client struct {
	*mcp.ClientSession
	t       *testing.T
	changes atomic.Int64 // notices that the tools have changed
}

func (w *world) client() *client {
	w.t.Helper()
	c := &client{t: w.t}
	conns := &http.Transport{}
	w.t.Cleanup(conns.CloseIdleConnections)
	var err error
	c.ClientSession, err = mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { c.changes.Add(1) },
	}).Connect(w.t.Context(), &mcp.StreamableClientTransport{
		Endpoint: w.host.Info().URL, HTTPClient: &http.Client{Transport: conns},
	}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	return c
}

// call calls a tool and returns the text of its result.
func (c *client) call(name string, args map[string]any) (string, error) {
	res, err := c.CallTool(context.Background(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return "", err
	}
	text := res.Content[0].(*mcp.TextContent).Text
	if res.IsError {
		return "", errors.New(text)
	}
	return text, nil
}

// mark asks a server what it is.
func (c *client) mark(server string) string {
	c.t.Helper()
	text, err := c.call(server+"__mark", nil)
	if err != nil {
		c.t.Fatalf("calling %s: %v", server, err)
	}
	return text
}

// tools returns the names of all tools.
func (c *client) tools() []string {
	c.t.Helper()
	res, err := c.ListTools(c.t.Context(), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	var names []string
	for _, tool := range res.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

// text is everything that operators can see, as JSON.
func (w *world) text() string {
	w.t.Helper()
	events, _, _ := w.host.Events().Since(0)
	lines, _, _ := w.host.Logs().Since(0)
	all, err := json.Marshal([]any{w.host.Status(), events, lines})
	if err != nil {
		w.t.Fatal(err)
	}
	return string(all)
}
