//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hermes-host/hermes-host/internal/chaos/probe"
)

// A hostProcess is the host under test, seen from outside: its process and its
// log.
type hostProcess struct {
	cmd   *exec.Cmd
	log   *os.File
	ended chan struct{} // closed when the process has ended and the log is read

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each line that says something
	url     string        // of /mcp; "" until it serves
	states  map[string]state
	levels  []probe.Level   // of all probes
	tail    []string        // the last lines
	back    []time.Duration // from the loss of a session to the next, for each recovery
	parks   int
}

// state is what a server is in, and since when it has not been ready.
type state struct {
	name string
	lost time.Time
}

// startHost starts the host, with a directory for its sockets. Its log goes to a
// file in dir, too.
func startHost(program, dir, sockets, config string) (*hostProcess, error) {
	path := filepath.Join(dir, "config.hcl")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "host.log"))
	if err != nil {
		return nil, err
	}
	h := &hostProcess{
		cmd:     exec.Command(program, "run", "--config", path),
		log:     log,
		ended:   make(chan struct{}),
		changed: make(chan struct{}),
		states:  map[string]state{},
	}
	h.cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+sockets, "XDG_CONFIG_HOME="+dir,
		probe.EnvDir+"="+dir)
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	stderr, err := h.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	go h.read(stderr)
	return h, nil
}

// read follows the log until the host ends.
func (h *hostProcess) read(stderr io.Reader) {
	defer close(h.ended)
	lines := bufio.NewReader(stderr)
	for {
		text, err := lines.ReadString('\n')
		if text != "" {
			_, _ = h.log.WriteString(text) // the log is for people
			h.line(text)
		}
		if err != nil {
			break
		}
	}
	_ = h.cmd.Wait() // the exit code is read from ProcessState
	h.log.Close()
}

// line takes in one line of the log.
func (h *hostProcess) line(text string) {
	var l struct {
		probe.Level
		Server, State, URL string
	}
	_ = json.Unmarshal([]byte(text), &l) // a line that is not JSON says nothing
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tail = append(h.tail, strings.TrimSpace(text))
	h.tail = h.tail[max(0, len(h.tail)-40):]
	switch {
	case l.Message == "serving MCP":
		h.url = l.URL
	case l.Message == probe.Message:
		h.levels = append(h.levels, l.Level)
	case l.State != "" && l.Message == "server "+l.State:
		h.transition(l.Server, l.State, time.Now())
	default:
		return
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *hostProcess) transition(server, to string, now time.Time) {
	s := h.states[server]
	if to == "parked" && s.name != "parked" {
		h.parks++
	}
	if to == "ready" && !s.lost.IsZero() {
		h.back = append(h.back, now.Sub(s.lost))
		s.lost = time.Time{}
	}
	if s.name == "ready" && to != "ready" {
		s.lost = now
	}
	s.name = to
	h.states[server] = s
}

// wait waits until what is true, which is asked with mu held whenever the log
// has said something.
func (h *hostProcess) wait(ctx context.Context, what func() bool) error {
	for {
		h.mu.Lock()
		done, changed := what(), h.changed
		h.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-h.ended:
			return fmt.Errorf("the host has ended: %v", h.cmd.ProcessState)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ready waits until the host serves and all servers are ready. The error says
// which are not.
func (h *hostProcess) ready(ctx context.Context, all []*server) error {
	var missing []string
	err := h.wait(ctx, func() bool {
		missing = nil
		for _, s := range all {
			if is := h.states[s.name].name; is != "ready" {
				missing = append(missing, s.name+" is "+is)
			}
		}
		return len(missing) == 0 && h.url != ""
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.Join(missing, ", "))
	}
	return nil
}

// probe has the host settle its memory and say how it is.
func (h *hostProcess) probe(ctx context.Context) (probe.Level, error) {
	h.mu.Lock()
	n := len(h.levels)
	h.mu.Unlock()
	if err := h.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		return probe.Level{}, err
	}
	if err := h.wait(ctx, func() bool { return len(h.levels) > n }); err != nil {
		return probe.Level{}, fmt.Errorf("asking the host for its levels: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.levels[n], nil
}

// stop ends the host in order and returns its exit code, or an error if it does
// not end.
func (h *hostProcess) stop() (int, error) {
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	select {
	case <-h.ended:
		return h.cmd.ProcessState.ExitCode(), nil
	case <-time.After(stopBound):
		_ = h.cmd.Process.Kill()
		<-h.ended
		return 0, fmt.Errorf("the host had not ended %v after SIGTERM", stopBound)
	}
}

// address is where the host listens.
func (h *hostProcess) address() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	u, err := url.Parse(h.url)
	if err != nil { // it would not have got this far
		panic(err)
	}
	return u.Host
}

// stopBound is for the orderly end of the host and everything below it.
const stopBound = 15 * time.Second

// recoveries returns the times from the loss of a session to the next, sorted,
// and how often a server was parked.
func (h *hostProcess) recoveries() ([]time.Duration, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(slices.Values(h.back)), h.parks
}

// last returns the end of the log.
func (h *hostProcess) last() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.tail, "\n")
}
