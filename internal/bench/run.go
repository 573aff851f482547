package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type options struct {
	rounds, calls, kills int
	only                 string
	cycles, flapping     int
}

// version is the protocol that clients speak: the newest with sessions, which
// is what most clients use and the faster of the two eras.
const version = "2025-11-25"

func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "hermes-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{options: o, dir: dir}
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "building host and plugins")
	for name, pkg := range map[string]string{
		"hermes-host":            "./cmd/hermes-host",
		"hermes-transport-stdio": "./plugins/stdio",
		"hermes-transport-http":  "./plugins/http",
	} {
		build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, name), pkg)
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s (run from the repository's root): %w\n%s", pkg, err, out)
		}
	}
	if o.cycles > 0 || o.flapping > 0 {
		fmt.Printf("%s; %s\n", time.Now().Format(time.DateOnly), machine())
		return b.endure(ctx)
	}
	fmt.Printf("%s; %s, protocol %s, medians of %d rounds, %d calls each\n", time.Now().Format(time.DateOnly), machine(), version, o.rounds, o.calls)
	if err := b.standing(ctx); err != nil {
		return fmt.Errorf("default configuration: %w", err)
	}
	for _, kind := range []string{"stdio", "http"} {
		if o.only != "" && o.only != kind {
			continue
		}
		if err := b.upstream(ctx, kind); err != nil {
			return fmt.Errorf("%s upstream: %w", kind, err)
		}
	}
	return nil
}

type bench struct {
	options
	dir, self string
}

// running is a host that the benchmark has started.
type running struct {
	cmd     *exec.Cmd
	log     *tail
	started time.Time
	tree    tree
}

func (b *bench) startHost(config string, args ...string) (*running, error) {
	r := &running{cmd: exec.Command(filepath.Join(b.dir, "hermes-host"), append([]string{"run", "--config", config}, args...)...), log: &tail{}}
	r.cmd.Stderr = r.log
	r.started = time.Now()
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	r.tree.root = r.cmd.Process.Pid
	return r, nil
}

// stop ends the host. If err is not nil it adds the end of the host's log.
func (r *running) stop(err error) error {
	_ = r.cmd.Process.Signal(os.Interrupt)
	_ = r.cmd.Wait()
	if err != nil {
		return fmt.Errorf("%w\nthe host's log ends with:\n%s", err, r.log)
	}
	return nil
}

// standing measures what the host needs to stand ready, with the configuration
// that comes with it.
func (b *bench) standing(ctx context.Context) error {
	var ready []time.Duration
	var idle memory
	for range b.rounds {
		addr, err := freeAddress()
		if err != nil {
			return err
		}
		host, err := b.startHost("config.hcl", "--listen", addr)
		if err != nil {
			return err
		}
		took, err := waitReady(ctx, host.started, "http://"+addr+"/mcp", 1)
		idle = host.tree.memory()
		if err := host.stop(err); err != nil {
			return err
		}
		ready = append(ready, took)
	}
	reportStanding(os.Stdout, ready, idle)
	return nil
}

// upstream measures one kind of upstream, directly and through a host.
func (b *bench) upstream(ctx context.Context, kind string) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	urls := map[int]string{}
	if kind == "http" {
		for _, tools := range []int{20, 1000} {
			if urls[tools], err = b.startHTTP(ctx, "-tools", strconv.Itoa(tools)); err != nil {
				return err
			}
		}
	}
	config := b.config(kind, urls)
	addr, err := freeAddress()
	if err != nil {
		return err
	}
	path := filepath.Join(b.dir, kind+".hcl")
	if err := os.WriteFile(path, fmt.Appendf(config, "\nlisten \"http\" {\n  address = %q\n}\n", addr), 0o600); err != nil {
		return err
	}
	var u usage
	host, err := b.startHost(path)
	if err != nil {
		return err
	}
	defer func() { err = host.stop(err) }()
	base := "http://" + addr + "/mcp"
	if _, err := waitReady(ctx, host.started, base, 1001); err != nil {
		return err
	}
	tree := host.tree

	direct, relayed := way{name: "direct"}, way{name: "through the host", prefix: "bench__"}
	for path, into := range map[string]**mcp.ClientSession{"": &relayed.session, "/bench": &relayed.few, "/many": &relayed.many} {
		if *into, err = connect(ctx, &mcp.StreamableClientTransport{Endpoint: base + path}); err != nil {
			return err
		}
		defer (*into).Close()
	}
	for tools, into := range map[int]**mcp.ClientSession{20: &direct.few, 1000: &direct.many} {
		var t mcp.Transport = &mcp.StreamableClientTransport{Endpoint: urls[tools]}
		if kind == "stdio" {
			t = &mcp.CommandTransport{Command: exec.Command(b.self, "upstream", "-tools", strconv.Itoa(tools))}
		}
		if *into, err = connect(ctx, t); err != nil {
			return err
		}
		defer (*into).Close()
	}
	direct.session = direct.few
	u.idle = tree.memory()

	var ds, hs []figures
	for round := range b.rounds {
		fmt.Fprintf(os.Stderr, "%s upstream: round %d of %d\n", kind, round+1, b.rounds)
		both, err := measure(ctx, b.calls, [2]way{direct, relayed})
		if err != nil {
			return err
		}
		ds, hs = append(ds, both[0]), append(hs, both[1])
	}
	before := tree.cpu()
	n := 5 * b.calls
	if _, err := throughput(n, 16, func() error {
		_, err := relayed.call(ctx, "echo", map[string]any{"text": "hello"})
		return err
	}); err != nil {
		return err
	}
	u.cpu = (tree.cpu() - before).Seconds() * 10000 / float64(n)
	u.loaded = tree.memory()
	if u.recoveries, err = b.recoveries(ctx, kind, relayed, tree); err != nil {
		return err
	}
	report(os.Stdout, kind, ds, hs, u)
	return nil
}

// recoveries kills what the host depends on. A remote server is not the host's
// to restart, so over http only the plugin is killed.
func (b *bench) recoveries(ctx context.Context, kind string, w way, t tree) ([]recovered, error) {
	var all []recovered
	if kind == "stdio" {
		took, err := w.recovery(ctx, b.kills, w.killServer)
		if err != nil {
			return nil, fmt.Errorf("killing the server: %w", err)
		}
		all = append(all, recovered{"server", took})
	}
	took, err := w.recovery(ctx, b.kills, func(context.Context) error {
		pids := t.plugins()
		if len(pids) == 0 {
			return errors.New("the host runs no plugin")
		}
		for _, pid := range pids {
			if err := kill(pid); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("killing the plugin: %w", err)
	}
	return append(all, recovered{"plugin", took}), nil
}

// killServer kills the process of the server that is called, if the host has
// started it.
func (w way) killServer(ctx context.Context) error {
	res, err := w.call(ctx, "pid", nil)
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(resultText(res))
	if err != nil {
		return err
	}
	return kill(pid)
}

// kill ends a process as kill -9 does.
func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}

// config is the host's configuration: the measured server, and one with a
// thousand tools.
func (b *bench) config(kind string, urls map[int]string) []byte {
	var out strings.Builder
	for name, tools := range map[string]int{"bench": 20, "many": 1000} {
		// The recovery figures are about the mechanism, not about the guard
		// against servers that crash in a loop.
		fmt.Fprintf(&out, "server %q {\n  crash_loop {\n    deaths = 1000\n  }\n", name)
		if name == "many" {
			fmt.Fprintf(&out, "  tools {\n    deny = [\"none\"]\n  }\n")
		}
		if kind == "stdio" {
			fmt.Fprintf(&out, "  transport \"stdio\" {\n    command = %q\n    args = [\"upstream\", \"-tools\", \"%d\"]\n  }\n}\n", b.self, tools)
		} else {
			fmt.Fprintf(&out, "  transport \"http\" {\n    url = %q\n  }\n}\n", urls[tools])
		}
	}
	return []byte(out.String())
}

// startHTTP starts the HTTP upstream with more arguments. It ends with ctx. The
// result is its URL.
func (b *bench) startHTTP(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, b.self, append([]string{"upstream", "-http", "127.0.0.1:0"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("starting the HTTP upstream: %w", err)
	}
	return "http://" + strings.TrimSpace(line), nil
}

func connect(ctx context.Context, t mcp.Transport) (*mcp.ClientSession, error) {
	if s, ok := t.(*mcp.StreamableClientTransport); ok {
		s.HTTPClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	return client.Connect(ctx, t, &mcp.ClientSessionOptions{ProtocolVersion: version})
}

// waitReady returns how long after start the host listed so many tools.
func waitReady(ctx context.Context, start time.Time, base string, want int) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the host was not ready within a minute"))
	defer cancel()
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-pace.C:
		}
		session, err := connect(ctx, &mcp.StreamableClientTransport{Endpoint: base})
		if err != nil {
			continue
		}
		tools := 0
		for _, err = range session.Tools(ctx, nil) {
			if err != nil {
				break
			}
			tools++
		}
		_ = session.Close()
		if tools >= want {
			return time.Since(start), nil
		}
	}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// tail keeps the end of what is written to it.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-4096):]
	return len(p), nil
}

func (t *tail) String() string { return string(t.text) }
