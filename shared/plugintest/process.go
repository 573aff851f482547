package plugintest

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"

	"github.com/hermes-host/hermes-host/internal/pluginrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// patience bounds every wait of the suite for something that must come.
const patience = 60 * time.Second

// A Process is a running plugin, started as the host starts it: through
// go-plugin, with mutual TLS, in a process group of its own where the system
// has them, and with its stdin as the lifeline.
type Process struct {
	transportpb.TransportClient

	run    *run
	client *plugin.Client
}

// drives is set once this process has started a plugin: it is that of the tests.
var drives atomic.Bool

// Start starts a plugin. It is ended with the test.
func Start(t testing.TB, binary string, env ...string) *Process {
	t.Helper()
	drives.Store(true)
	r := &run{name: binary, env: env, exited: make(chan struct{})}
	dir, err := os.MkdirTemp("", "pt") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  pluginrpc.Handshake,
		VersionedPlugins: pluginrpc.HostPlugins(),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		RunnerFunc:       r.attach,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: dir},
		AutoMTLS:         true,
		SkipHostEnv:      true,
		StartTimeout:     patience,
		GRPCDialOptions:  pluginrpc.DialOptions(),
		Logger:           hclog.NewNullLogger(),
	})
	t.Cleanup(func() {
		client.Kill()
		_ = os.RemoveAll(dir) // best effort, in a temporary directory
	})
	protocol, err := client.Client()
	if err != nil {
		t.Fatalf("starting the plugin %s: %v\n%s", binary, err, r.output())
	}
	dispensed, err := protocol.Dispense(pluginrpc.Name)
	if err != nil {
		t.Fatal(err)
	}
	return &Process{TransportClient: dispensed.(*pluginrpc.Client).TransportClient, run: r, client: client}
}

// Pid returns the plugin's process id.
func (p *Process) Pid() int { return p.run.cmd.Process.Pid }

// Exited is closed when the plugin's process has ended.
func (p *Process) Exited() <-chan struct{} { return p.run.exited }

// CutLifeline does what the death of the host does to the plugin's stdin.
func (p *Process) CutLifeline() { _ = p.run.lifeline.Close() }

// Kill ends the plugin's process by force.
func (p *Process) Kill() { _ = p.run.Kill(context.Background()) }

// Output returns what the plugin has written to stderr so far.
func (p *Process) Output() string { return p.run.output() }

// run is go-plugin's view of the process.
type run struct {
	name     string
	env      []string
	cmd      *exec.Cmd
	lifeline *os.File
	stdout   *os.File
	stderr   *os.File
	exited   chan struct{}

	mu   sync.Mutex
	text strings.Builder
}

func (r *run) attach(_ hclog.Logger, spec *exec.Cmd, _ string) (runner.Runner, error) {
	r.cmd = exec.Command(r.name)
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "SYSTEMROOT", "GOCOVERDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			r.cmd.Env = append(r.cmd.Env, name+"="+v)
		}
	}
	r.cmd.Env = append(r.cmd.Env, r.env...)
	r.cmd.Env = append(r.cmd.Env, spec.Env...)
	r.cmd.Env = append(r.cmd.Env, pluginrpc.EnvLifeline+"="+pluginrpc.LifelineStdin, pluginrpc.EnvLogLevel+"=debug")
	ownGroup(r.cmd)
	return r, nil
}

// Start starts the process with pipes whose other ends nobody else holds.
func (r *run) Start(context.Context) error {
	in, lifeline, err := os.Pipe()
	if err != nil {
		return err
	}
	stdout, out, err := os.Pipe()
	if err != nil {
		return err
	}
	stderr, errs, err := os.Pipe()
	if err != nil {
		return err
	}
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = in, out, errs
	r.lifeline, r.stdout, r.stderr = lifeline, stdout, stderr
	err = r.cmd.Start()
	for _, f := range []*os.File{in, out, errs} {
		_ = f.Close() // the child's ends
	}
	if err != nil {
		return err
	}
	go func() {
		_ = r.cmd.Wait() // ProcessState says more
		close(r.exited)
		_ = r.stdout.SetReadDeadline(time.Now()) // whatever a descendant holds
		_ = r.stderr.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	}()
	return nil
}

func (r *run) Wait(context.Context) error { <-r.exited; return nil }

func (r *run) Kill(context.Context) error {
	if r.cmd.Process == nil {
		return nil
	}
	killGroup(r.cmd)
	<-r.exited
	_ = r.lifeline.Close() // may be cut already
	return nil
}

func (r *run) Stdout() io.ReadCloser { return eof{r.stdout, func(string) {}} }
func (r *run) Stderr() io.ReadCloser {
	return eof{r.stderr, func(s string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.text.WriteString(s)
	}}
}
func (r *run) Name() string                                     { return r.name }
func (r *run) ID() string                                       { return strconv.Itoa(r.cmd.Process.Pid) }
func (r *run) Diagnose(context.Context) string                  { return r.output() }
func (r *run) PluginToHost(n, a string) (string, string, error) { return n, a, nil }
func (r *run) HostToPlugin(n, a string) (string, string, error) { return n, a, nil }

func (r *run) output() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// eof turns the end of a pipe that is given up into an end of file, and shows
// what was read.
type eof struct {
	*os.File
	seen func(string)
}

func (e eof) Read(b []byte) (int, error) {
	n, err := e.File.Read(b)
	e.seen(string(b[:n]))
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed) {
		err = io.EOF
	}
	return n, err
}
