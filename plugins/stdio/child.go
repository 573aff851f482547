package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/hermes-host/hermes-host/internal/orphan"
	"github.com/hermes-host/hermes-host/shared"
)

const (
	stderrLine = 8<<10 - 16 // longer lines are passed on in pieces, which with their marks are no longer than the kit's limit
	tailLines  = 20
	tailBytes  = 4 << 10

	// heldGrace is how long the pipes of a process that has exited are still
	// read. They end at once unless a descendant holds them open.
	heldGrace = 100 * time.Millisecond
)

// child is a server's process and the plugin's ends of its pipes. One
// goroutine waits for it, one drains its stderr.
type child struct {
	home   *orphan.Home
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	stderr *os.File

	exited  chan struct{} // closed when the process has been reaped
	drained chan struct{} // closed when stderr has ended
	tail    tail          // may be read after drained
}

// start starts the process that c describes.
func start(c config, s shared.Session, home *orphan.Home) (*child, error) {
	file, end := c.resolve()
	if end != nil {
		if c.searched() {
			s.Logger.Debug("no such command", "PATH", c.path())
		}
		return nil, end
	}
	p := &child{home: home, exited: make(chan struct{}), drained: make(chan struct{})}
	var theirs, ours []*os.File
	failed := func(err error) (*child, error) {
		for _, f := range append(theirs, ours...) {
			_ = f.Close() // nothing was written
		}
		return nil, err
	}
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			return failed(fmt.Errorf("making a pipe for the server's process: %w", err))
		}
		if i == 0 {
			theirs, ours = append(theirs, r), append(ours, w)
		} else {
			theirs, ours = append(theirs, w), append(ours, r)
		}
	}
	p.stdin, p.stdout, p.stderr = ours[0], ours[1], ours[2]
	// Files, and not readers and writers, so that Wait waits for the process
	// alone and not for whoever has inherited its pipes.
	p.cmd = &exec.Cmd{
		Path:   file,
		Args:   append([]string{c.Command}, c.Args...),
		Env:    c.environ(),
		Dir:    c.Cwd,
		Stdin:  theirs[0],
		Stdout: theirs[1],
		Stderr: theirs[2],
	}
	if err := home.Start(p.cmd); err != nil {
		return failed(startError(file, err))
	}
	for _, f := range theirs {
		_ = f.Close() // the process has its own copies
	}
	go p.drain(s.Stderr)
	go p.wait()
	return p, nil
}

// startError says why an existing file could not be started.
func startError(file string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return shared.ConfigError(fmt.Sprintf("can't start %q: the file is there, but the interpreter or loader that it names is not", file), shared.Attr("command"))
	case errors.Is(err, fs.ErrPermission):
		return shared.ConfigError(fmt.Sprintf("can't start %q: no permission", file), shared.Attr("command"))
	case errors.Is(err, syscall.ENOEXEC):
		return shared.ConfigError(fmt.Sprintf("can't start %q: it is no program for this system, or a script without a first line #!", file), shared.Attr("command"))
	case errors.Is(err, syscall.E2BIG):
		return shared.ConfigError(fmt.Sprintf("can't start %q: its arguments and environment are too long", file), shared.Attr("args"))
	}
	return fmt.Errorf("starting %q: %w", file, err)
}

// wait reaps the process and ends what depends on it.
func (p *child) wait() {
	_ = p.home.Wait(p.cmd) // ProcessState says more
	close(p.exited)
	_ = p.stdin.Close() // ends a write that blocks though nobody will read
	time.AfterFunc(heldGrace, func() {
		_ = p.stdout.Close()
		_ = p.stderr.Close()
	})
}

// cut marks where a line was cut. The host looks there for pieces of secrets.
const cut = "…"

// drain passes on stderr line by line until it ends.
func (p *child) drain(line func(string)) {
	defer close(p.drained)
	r := bufio.NewReaderSize(p.stderr, stderrLine)
	inside := "" // cut, if the next piece goes on with a line
	for {
		text, err := r.ReadSlice('\n')
		before := inside
		inside = ""
		if errors.Is(err, bufio.ErrBufferFull) {
			inside = cut
		}
		if s := strings.TrimRight(string(text), "\r\n"); s != "" {
			s = before + s + inside
			p.tail.add(s)
			line(s)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// status says how the process ended. It may be called after exited is closed.
// The number of a signal is what people know: signal 9 is SIGKILL.
func (p *child) status() string {
	state := p.cmd.ProcessState
	if state == nil {
		return "the server's process ended in an unknown way"
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return fmt.Sprintf("the server's process was killed by signal %d (%v)", int(ws.Signal()), ws.Signal())
	}
	return fmt.Sprintf("the server's process exited with status %d", state.ExitCode())
}

// tail keeps the last lines of stderr.
type tail struct {
	lines []string
	bytes int
}

func (t *tail) add(line string) {
	if len(line) > tailBytes/4 {
		line = line[:tailBytes/4] + cut
	}
	t.lines = append(t.lines, line)
	t.bytes += len(line)
	for len(t.lines) > tailLines || t.bytes > tailBytes {
		t.bytes -= len(t.lines[0])
		t.lines = t.lines[1:]
	}
}

// String returns the lines as the end of a message, "" if there are none.
func (t *tail) String() string {
	if len(t.lines) == 0 {
		return ""
	}
	return "; its last lines on stderr:\n" + strings.Join(t.lines, "\n")
}
