package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/internal/orphan"
	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

const (
	// polite is how long a server has to exit after the end of its input, and
	// again after SIGTERM (MCP 2025-11-25, basic/lifecycle, shutdown).
	polite = 2 * time.Second

	// orphanGrace is how long descendants that outlive the server have
	// between SIGTERM and SIGKILL.
	orphanGrace = 250 * time.Millisecond

	// reap is how long a process whose stdin has broken may take to exit, so
	// that the exit can be reported: the system closes a process's pipes
	// before it tells of its end.
	reap = 100 * time.Millisecond

	// mute is how long a server that has closed its stdout may take to exit,
	// so that the exit can be reported.
	mute = time.Second
)

// starter starts processes, and knows how many it has.
type starter struct {
	home *orphan.Home // nil: there is none
	live atomic.Int32
}

func (p *starter) dial(_ context.Context, s shared.Session, c config) (shared.Conn, error) {
	p.live.Add(1) // before there is a process, so that no other server's end takes it for its own
	proc, err := start(c, s, p.home)
	if err != nil {
		p.live.Add(-1)
		return nil, err
	}
	s.Logger.Debug("started the server's process", "pid", proc.cmd.Process.Pid)
	lines := shared.NewLineConn(proc.stdout, proc.stdin, shared.LineOptions{
		MaxMessageBytes: s.MaxMessageBytes,
		Stray:           strays(s.Logger),
	})
	return &conn{LineConn: lines, proc: proc, owner: p, gone: make(chan struct{})}, nil
}

// loudStrays is how many stray lines of a session are worth a warning. A server
// that prints for ever would fill the log otherwise.
const loudStrays = 20

// strays returns what logs a session's lines on stdout that are no messages.
// The session's reader calls it, one line at a time.
func strays(log hclog.Logger) func(line string) {
	seen := 0
	return func(line string) {
		seen++
		switch {
		case seen < loudStrays:
			log.Warn("the server wrote to its stdout what is no MCP message", "line", line)
		case seen == loudStrays:
			log.Warn("the server goes on writing to its stdout what is no MCP message; further lines are logged at level debug", "line", line)
		default:
			log.Debug("the server wrote to its stdout what is no MCP message", "line", line)
		}
	}
}

// conn is a session with a process.
type conn struct {
	*shared.LineConn
	proc  *child
	owner *starter

	closing sync.Once
	gone    chan struct{} // closed when nothing is left
}

// ProcessID implements [shared.Process].
func (c *conn) ProcessID() int { return c.proc.cmd.Process.Pid }

// Read returns the next message. Its error says how the process ended.
func (c *conn) Read(ctx context.Context) (shared.Incoming, error) {
	in, err := c.LineConn.Read(ctx)
	if err == nil {
		return in, nil
	}
	select {
	case <-c.proc.exited:
	case <-time.After(mute):
		return in, fmt.Errorf("the server's process runs but can't be spoken with: %w", err)
	}
	<-c.proc.drained // the grace for held pipes bounds it
	return in, &shared.EndError{
		Class:     transportpb.SessionEnd_CLASS_TRANSPORT,
		Message:   c.proc.status() + c.proc.tail.String(),
		Retryable: true,
	}
}

// Write writes a message. If that fails since the process has ended, the error
// says how it did.
func (c *conn) Write(ctx context.Context, m *jsonrpc.Message) error {
	err := c.LineConn.Write(ctx, m)
	failed, ok := errors.AsType[*shared.WriteError](err)
	if !ok || failed.Reason != transportpb.TransportError_REASON_CONNECTION {
		return err
	}
	timer := time.NewTimer(reap)
	defer timer.Stop()
	select {
	case <-c.proc.exited:
		failed.Message = c.proc.status()
	case <-timer.C:
	case <-ctx.Done():
	}
	return failed
}

// Close ends the process: end of input, then SIGTERM, then SIGKILL, the last
// at once when ctx ends. Descendants that survive it go too. Of several calls
// the first one's ctx counts; the others wait.
func (c *conn) Close(ctx context.Context) error {
	c.closing.Do(func() {
		defer close(c.gone)
		c.end(ctx)
	})
	<-c.gone
	return nil
}

func (c *conn) end(ctx context.Context) {
	pid := c.proc.cmd.Process.Pid
	family := descendants(pid)
	_ = c.proc.stdin.Close() // after an exit it is closed already
	if !c.exits(ctx, polite) {
		family = descendants(pid)
		c.signal(syscall.SIGTERM, family)
		if !c.exits(ctx, polite) {
			family = descendants(pid)
			c.signal(syscall.SIGKILL, family)
			c.exits(context.WithoutCancel(ctx), polite)
		}
	}
	c.sweep(ctx, family)
	_ = c.LineConn.Close(ctx) // the pipes of a process that is gone
	_ = c.proc.stderr.Close()
	<-c.proc.drained
	c.owner.live.Add(-1)
}

// exits waits for the process's exit for at most d, and reports it.
func (c *conn) exits(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.proc.exited:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func (c *conn) signal(sig syscall.Signal, family []orphan.Process) {
	if err := c.proc.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		_ = c.proc.cmd.Process.Kill() // a system without that signal
	}
	for _, p := range family {
		signalPid(p.PID, sig)
	}
}

// sweep ends what the server has left behind.
func (c *conn) sweep(ctx context.Context, family []orphan.Process) {
	left := c.survivors(family)
	if len(left) == 0 {
		return
	}
	for _, p := range left {
		signalPid(p.PID, syscall.SIGTERM)
	}
	select {
	case <-time.After(orphanGrace):
	case <-ctx.Done():
	}
	c.kill(c.survivors(left))
}
