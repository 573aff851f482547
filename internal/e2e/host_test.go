package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// patience bounds every wait for something that is bound to happen.
const patience = 30 * time.Second

// A program is a running program whose JSON log is read as it comes.
type program struct {
	t    *testing.T
	cmd  *exec.Cmd
	wait time.Duration // bounds each wait for its log
	done chan struct{} // closed when the program has ended and its log is read

	mu    sync.Mutex
	cond  *sync.Cond
	lines []line
	raw   bytes.Buffer // the log as it came
	ended bool
}

// A line is one line of the log.
type line struct {
	Level   string `json:"@level"`
	Message string `json:"@message"`
	Server  string `json:"server"`
	State   string `json:"state"`
	Error   string `json:"error"`
	URL     string `json:"url"`
}

// transition reports whether the line tells a change of state, not an attempt
// within one.
func (l line) transition() bool { return l.State != "" && l.Message == "server "+l.State }

// start runs the host with args. It is killed when the test ends, if it has
// not ended before; its log is shown if the test fails.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	cmd := exec.Command(hermes, args...)
	cmd.Env = environment(t)
	return startProgram(t, cmd)
}

// startProgram is start for any command whose standard error is a host's log.
func startProgram(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{t: t, cmd: cmd, wait: patience, done: make(chan struct{})}
	p.cond = sync.NewCond(&p.mu)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read(stderr)
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			p.mu.Lock()
			defer p.mu.Unlock()
			t.Logf("log of %s:\n%s", strings.Join(cmd.Args, " "), &p.raw)
		}
	})
	return p
}

// environment is that of the programs under test: no configuration of the
// machine's user is found.
func environment(t *testing.T) []string {
	return append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir(), "NO_COLOR=1")
}

func (p *program) read(stderr io.Reader) {
	defer close(p.done)
	r := bufio.NewReader(stderr)
	for {
		text, err := r.ReadBytes('\n')
		if len(text) > 0 {
			var l line
			_ = json.Unmarshal(text, &l) // a line that is not JSON is kept in raw alone
			p.mu.Lock()
			p.raw.Write(text)
			p.lines = append(p.lines, l)
			p.cond.Broadcast()
			p.mu.Unlock()
		}
		if err != nil {
			break
		}
	}
	_ = p.cmd.Wait() // the exit code is read from ProcessState
	p.mu.Lock()
	p.ended = true
	p.cond.Broadcast()
	p.mu.Unlock()
}

// await returns the first line from number from on that matches, and the
// number of the line after it. It fails the test when the program ends or
// p.wait runs out before.
func (p *program) await(from int, what string, match func(line) bool) (line, int) {
	p.t.Helper()
	late := false
	timer := time.AfterFunc(p.wait, func() {
		p.mu.Lock()
		late = true
		p.cond.Broadcast()
		p.mu.Unlock()
	})
	defer timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := from; ; i++ {
		for i >= len(p.lines) && !p.ended && !late {
			p.cond.Wait()
		}
		if i >= len(p.lines) {
			p.t.Fatalf("waiting in the log for %s: ended %v, out of patience %v", what, p.ended, late)
		}
		if match(p.lines[i]) {
			return p.lines[i], i + 1
		}
	}
}

// awaitState waits until a server has reached a state, counting from a line.
func (p *program) awaitState(from int, server, state string) int {
	p.t.Helper()
	_, next := p.await(from, server+" to be "+state, func(l line) bool { return l.Server == server && l.State == state && l.transition() })
	return next
}

// mark returns the number of the next line of the log.
func (p *program) mark() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.lines)
}

// states returns the states that a server went through from a line on.
func (p *program) states(from int, server string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var states []string
	for _, l := range p.lines[from:] {
		if l.Server == server && l.transition() {
			states = append(states, l.State)
		}
	}
	return states
}

// stop ends the program in order and returns its exit code.
func (p *program) stop() int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatal("the host did not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

// A runningHost serves over HTTP.
type runningHost struct {
	*program
	url    string // of /mcp
	config string // path of the configuration
}

// run starts the host with a configuration, on a free port, and waits for the
// named servers to be ready.
func run(t *testing.T, config string, ready ...string) *runningHost {
	t.Helper()
	path := writeConfig(t, config)
	p := start(t, "run", "--config", path, "--listen", "127.0.0.1:0", "--log-format", "json")
	serving, _ := p.await(0, "the address", func(l line) bool { return l.Message == "serving MCP" })
	for _, server := range ready {
		p.awaitState(0, server, "ready")
	}
	return &runningHost{p, serving.URL, path}
}

func writeConfig(t *testing.T, config string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.hcl")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// connect opens a session of the Go SDK with an endpoint of the host.
func (h *runningHost) connect(path string, opts *mcp.ClientOptions) *mcp.ClientSession {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, opts).
		Connect(ctx, &mcp.StreamableClientTransport{Endpoint: h.url + path}, nil)
	if err != nil {
		h.t.Fatalf("connecting to %s%s: %v", h.url, path, err)
	}
	h.t.Cleanup(func() { session.Close() })
	return session
}

// callText calls a tool and returns its text.
func callText(t *testing.T, session *mcp.ClientSession, tool string, args any) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("calling %s: %v", tool, err)
	}
	if res.IsError || len(res.Content) != 1 {
		t.Fatalf("calling %s: error %v, content %v", tool, res.IsError, res.Content)
	}
	return res.Content[0].(*mcp.TextContent).Text
}

// output is what a command that ends by itself printed.
type output struct {
	code           int
	stdout, stderr string
}

// command runs the host's command line to its end.
func command(t *testing.T, dir string, args ...string) output {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, hermes, args...)
	cmd.Dir = dir
	cmd.Env = environment(t)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("hermes-host %s did not end\n%s", strings.Join(args, " "), &stderr)
	}
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	return output{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// demoServer is a server block around the demo server.
func demoServer(name string) string {
	return fmt.Sprintf("server %q {\n  transport \"stdio\" {\n    command = %q\n    args    = [\"demo-server\"]\n  }\n}\n", name, hermes)
}

// port returns the port of an address or URL.
func port(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}
