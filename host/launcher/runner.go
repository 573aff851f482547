package launcher

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin/runner"

	"github.com/hermes-host/hermes-host/internal/orphan"
)

// This file is one plugin process as go-plugin sees it, through its RunnerFunc.
//
// go-plugin's own runner reads the plugin's pipes to their ends before it looks
// for its exit, and a grandchild that inherited a pipe hides the exit for as
// long as it lives. It also gives the plugin the host's stdin, and kills
// one process only. This one watches the process, not its pipes, gives it the
// lifeline, and kills the group.

// A process run is used once: started, awaited, done.
type run struct {
	exe   *executable
	name  string
	level hclog.Level
	guard *guard
	home  *orphan.Home
	spec  []string // go-plugin's part of the environment

	lifeline *os.File // the host's end
	stdout   *handshake
	stderr   *sanitizer

	// done is closed when the process has ended and its group was killed, or
	// by giveUp if it was never started. exit is set before.
	done chan struct{}
	exit *os.ProcessState // nil: it never ran

	mu     sync.Mutex
	pid    int  // 0 until started
	killed bool // no start any more
	swept  bool // the process has ended: its id is not ours any more
}

var _ runner.Runner = (*run)(nil)

// pipeGrace is how long the output of an ended process is still read if
// something else holds the pipes open.
const pipeGrace = 250 * time.Millisecond

func newRun(exe *executable, name string, level hclog.Level, g *guard, home *orphan.Home) *run {
	return &run{exe: exe, name: name, level: level, guard: g, home: home, done: make(chan struct{})}
}

// attach is go-plugin's RunnerFunc. Of the command it brings only the
// environment is of use: the path is empty, and stdin is the host's.
func (r *run) attach(_ hclog.Logger, spec *exec.Cmd, _ string) (runner.Runner, error) {
	r.spec = spec.Env
	return r, nil
}

// Start verifies and starts the executable. Ctx bounds the verification; the
// process lives on.
func (r *run) Start(ctx context.Context) error {
	return r.start(ctx)
}

func (r *run) start(ctx context.Context) error {
	if err := r.exe.verify(ctx); err != nil {
		return err
	}
	var ends pipes
	defer ends.closeChild()
	lifeline, err := ends.in()
	if err != nil {
		return gone("plugin %s: making pipes: %v", r.exe.path, err)
	}
	out, err := ends.out()
	if err != nil {
		ends.closeHost()
		return gone("plugin %s: making pipes: %v", r.exe.path, err)
	}
	errOut, err := ends.out()
	if err != nil {
		ends.closeHost()
		return gone("plugin %s: making pipes: %v", r.exe.path, err)
	}
	cmd := exec.Command(r.exe.path, r.exe.command.Args...)
	cmd.Env = environ(os.Environ(), runtime.GOOS == "windows", r.exe.command, r.level, r.spec)
	// Files, not other readers and writers: then cmd.Wait waits for the
	// process alone.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = ends.child[0], ends.child[1], ends.child[2]
	ownGroup(cmd)

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.killed {
		ends.closeHost()
		return gone("plugin %s: it was not started: %v", r.exe.path, context.Canceled)
	}
	if err := r.home.Start(cmd); err != nil {
		ends.closeHost()
		return startError(r.exe.path, err)
	}
	r.pid = cmd.Process.Pid
	r.lifeline = lifeline
	r.stdout = &handshake{readEnd: newReadEnd(out)}
	r.stderr = newSanitizer(newReadEnd(errOut))
	r.guard.add(r.pid)
	go r.reap(cmd)
	return nil
}

// startError tells what a person must mend from what may pass.
func startError(path string, err error) error {
	passing := []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ETXTBSY, syscall.EINTR}
	for _, p := range passing {
		if errors.Is(err, p) {
			return gone("plugin %s: starting it: %v", path, reason(err))
		}
	}
	return fault("plugin %s cannot be started: %v", path, reason(err))
}

// reason is an error without the path that the message around it has.
func reason(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}

// reap is the one goroutine that waits for the process. It ends with the
// process's pipes.
func (r *run) reap(cmd *exec.Cmd) {
	awaitExit(cmd)
	r.mu.Lock()
	r.swept = true
	killGroup(r.pid)
	r.guard.remove(r.pid)
	_ = r.home.Wait(cmd) // its only errors are the exit, which is in ProcessState
	r.exit = cmd.ProcessState
	r.mu.Unlock()
	r.lifeline.Close()
	close(r.done)

	grace := time.NewTimer(pipeGrace)
	defer grace.Stop()
	for _, end := range []*readEnd{r.stdout.readEnd, r.stderr.readEnd} {
		select {
		case <-end.ended:
		case <-grace.C:
			grace.Reset(0)
		}
		end.Close()
	}
}

// kill ends the process and all of its group at once, or keeps it from being
// started. It does not wait.
func (r *run) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killed = true
	if r.pid != 0 && !r.swept {
		killGroup(r.pid)
	}
}

// giveUp kills the process and waits for its end; one that was not started
// counts as ended. It is called when no Start can be under way.
func (r *run) giveUp() {
	r.kill()
	r.mu.Lock()
	never := r.pid == 0
	r.mu.Unlock()
	if never {
		close(r.done)
	}
	<-r.done
}

// terminate asks all of the group to end: by the end of the lifeline, and by
// SIGTERM where there is one.
func (r *run) terminate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pid != 0 && !r.swept {
		r.lifeline.Close()
		termGroup(r.pid)
	}
}

// The rest of go-plugin's interface.

// Wait returns when the process has ended. How it ended is told elsewhere.
func (r *run) Wait(ctx context.Context) error {
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *run) Kill(context.Context) error {
	r.kill()
	return nil
}

// ID is never empty: go-plugin's Kill cleans up only after a runner that has
// one.
func (r *run) ID() string {
	if pid := r.number(); pid != 0 {
		return strconv.Itoa(pid)
	}
	return "not started"
}

// number is the id of the process, 0 if it was not started.
func (r *run) number() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pid
}

func (r *run) Name() string                    { return r.name }
func (r *run) Stdout() io.ReadCloser           { return r.stdout }
func (r *run) Stderr() io.ReadCloser           { return r.stderr }
func (r *run) Diagnose(context.Context) string { return "" }

func (r *run) PluginToHost(network, addr string) (string, string, error) { return network, addr, nil }
func (r *run) HostToPlugin(network, addr string) (string, string, error) { return network, addr, nil }
