package launcher

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/hermes-host/hermes-host/internal/pluginrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// This file is one plugin process from its start to its end.

// A process is a plugin that runs, or has run. Its keeper goroutine watches it
// and, in the end, stops it.
type process struct {
	launcher *Launcher
	kind     string
	exe      *executable
	run      *run
	client   *plugin.Client
	rpc      transportpb.TransportClient
	health   grpc_health_v1.HealthClient
	about    *Description
	began    time.Time

	stopping chan struct{} // closed by the first stop
	stopOnce sync.Once
	patience time.Duration // what the first stop allows for Stop; set before stopping is closed
	gone     chan struct{} // closed when nothing is left of it
	verdict  atomic.Pointer[string]
	hung     atomic.Bool // the latest health check was not answered while something was to end

	// Guarded by launcher.mu; see pool.go.
	users int
	idle  *time.Timer
}

// launch starts a plugin and asks it what it is. When ctx ends before that is
// done, the process is killed. The error is an *session.End, or the
// cause of ctx.
//
// The caller is counted in launcher.running.
func (l *Launcher) launch(ctx context.Context, kind string, exe *executable) (*process, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.timing.handshake+l.timing.describe, errSlow)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()

	p := &process{
		launcher: l,
		kind:     kind,
		exe:      exe,
		run:      newRun(exe, prefix+kind, l.level, l.guard, l.estate.home),
		stopping: make(chan struct{}),
		gone:     make(chan struct{}),
	}
	log := &quiet{Logger: l.log, plugin: prefix + kind}
	// A new one for each start: go-plugin writes to its configuration, and a
	// Client starts once only.
	p.client = plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  pluginrpc.Handshake,
		VersionedPlugins: pluginrpc.HostPlugins(),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		RunnerFunc:       p.run.attach,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: l.run.path},
		AutoMTLS:         true,
		SkipHostEnv:      true,
		StartTimeout:     l.timing.handshake,
		SyncStdout:       &stray{log: l.log.Named(prefix + kind), what: "stdout"},
		SyncStderr:       &stray{log: l.log.Named(prefix + kind), what: "stderr"},
		GRPCDialOptions:  pluginrpc.DialOptions(),
		Logger:           log,
	})
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.live[p] = struct{}{}
	}
	l.mu.Unlock()
	if closed {
		return nil, errClosing
	}
	l.estate.add(p)

	p.began = time.Now()
	unhook := context.AfterFunc(ctx, p.run.kill)
	err := p.greet(ctx)
	unhook()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx) // it was killed
	}
	if err != nil {
		p.run.giveUp()
		p.discard()
		err = p.launchError(ctx, err)
		l.bury(p)
		return nil, err
	}
	l.estate.described(p)
	l.log.Debug("plugin started", "kind", kind, "version", p.about.Version, "pid", p.run.ID())
	l.running.Go(p.keep)
	return p, nil
}

var (
	errSlow = errors.New("it took too long to start")
	errDied = errors.New("it ended while it started")
)

// greet does the handshake and lets the plugin describe itself.
func (p *process) greet(ctx context.Context) error {
	if _, err := p.client.Start(); err != nil {
		return err
	}
	protocol, err := p.client.Client()
	if err != nil {
		return fmt.Errorf("connecting to it: %w", err)
	}
	raw, err := protocol.Dispense(pluginrpc.Name)
	if err != nil {
		return fmt.Errorf("connecting to it: %w", err)
	}
	p.rpc = raw.(*pluginrpc.Client)
	p.health = grpc_health_v1.NewHealthClient(protocol.(*plugin.GRPCClient).Conn)
	ctx, cancel := context.WithTimeout(ctx, p.launcher.timing.describe)
	defer cancel()
	defer p.whenOver(cancel)() // gRPC would go on connecting to a dead process
	about, err := p.rpc.Describe(ctx, &transportpb.DescribeRequest{}, grpc.WaitForReady(true))
	switch {
	case err != nil && !p.alive():
		return errDied
	case err != nil:
		return fmt.Errorf("asking it to describe itself: %w", err)
	}
	if about.GetKind() != p.kind {
		return fault("plugin %s serves transport %q, not %q", p.exe.path, printable(about.GetKind()), p.kind)
	}
	p.about = describe(p.exe, about)
	return nil
}

// keep watches the process until it has ended or is to be stopped, and leaves
// nothing of it.
func (p *process) keep() {
	p.watch()
	p.launcher.retire(p)
	if p.alive() {
		p.bid()
	}
	p.discard()
	p.launcher.bury(p)
}

// alive reports whether the process has not ended.
func (p *process) alive() bool {
	select {
	case <-p.run.done:
		return false
	default:
		return true
	}
}

// watch returns when the process has ended or is to be stopped. A plugin that
// does not answer two health checks is killed: nothing but that tells a
// stopped or deadlocked process from one that has nothing to say.
func (p *process) watch() {
	t := p.launcher.timing
	ticker := time.NewTicker(t.healthEvery)
	defer ticker.Stop()
	for {
		select {
		case <-p.run.done:
			return
		case <-p.stopping:
			return
		case <-ticker.C:
			if p.responds(2) || !p.alive() {
				continue
			}
			p.condemn(fmt.Sprintf("it did not answer for %v and was killed", 2*t.healthWait))
			p.run.kill()
		}
	}
}

// responds asks the plugin's health service up to so many times. Any answer
// will do, also that there is no such service.
func (p *process) responds(times int) bool {
	for range times {
		if p.answers() {
			return true
		}
	}
	return false
}

func (p *process) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), p.launcher.timing.healthWait)
	defer cancel()
	defer p.whenOver(cancel)()
	_, err := p.health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: plugin.GRPCServiceName})
	switch status.Code(err) {
	case codes.DeadlineExceeded, codes.Unavailable:
		return false
	}
	p.hung.Store(false)
	return true
}

// unlessHung returns a context for waiting for the plugin to end something. It
// also ends when the plugin leaves a health check unanswered, which it answers
// at once however long its servers take to end. It is checked again and again,
// since it may hang in the middle. The function that is returned must be called,
// and waits.
func (p *process) unlessHung(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		hung := p.launcher.timing.hung
		again := time.NewTicker(hung / 3)
		defer again.Stop()
		for ctx.Err() == nil {
			check, stop := context.WithTimeout(ctx, hung)
			_, err := p.health.Check(check, &grpc_health_v1.HealthCheckRequest{Service: plugin.GRPCServiceName})
			stop()
			if status.Code(err) == codes.DeadlineExceeded && ctx.Err() == nil {
				p.hung.Store(true)
				cancel()
				return
			}
			select {
			case <-again.C:
			case <-ctx.Done():
			}
		}
	}()
	return ctx, func() {
		cancel()
		<-asked
	}
}

// whenOver calls f when the process ends or is to be stopped, unless the
// function that it returns, which waits, is called first.
func (p *process) whenOver(f func()) (forget func()) {
	over, left := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(left)
		select {
		case <-p.run.done:
			f()
		case <-p.stopping:
			f()
		case <-over:
		}
	}()
	return func() {
		close(over)
		<-left
	}
}

// condemn records why the process is about to be killed.
func (p *process) condemn(why string) { p.verdict.CompareAndSwap(nil, &why) }

// stop ends the process in order, and by force when ctx ends. It returns when
// nothing is left of it. It may be called several times and concurrently.
func (p *process) stop(ctx context.Context) {
	p.stopOnce.Do(func() {
		p.patience = p.launcher.timing.stop
		if deadline, ok := ctx.Deadline(); ok {
			// Leave the rest for the harder ways.
			p.patience = min(p.patience, time.Until(deadline)*2/3)
		}
		close(p.stopping)
	})
	select {
	case <-p.gone:
		return
	case <-ctx.Done():
	}
	p.run.kill()
	settle := time.NewTimer(p.launcher.timing.settle)
	defer settle.Stop()
	select {
	case <-p.gone:
	case <-settle.C:
		p.launcher.log.Error("plugin process is still there after it was killed", "kind", p.kind, "pid", p.run.ID())
	}
}

// bid asks the plugin to stop: by Stop, then by the end of its lifeline and
// SIGTERM to its group. One that is hung hears none of it and is killed. What
// remains is for discard.
func (p *process) bid() {
	if !p.hung.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), p.patience)
		defer cancel()
		ctx, done := p.unlessHung(ctx)
		defer done()
		if _, err := p.rpc.Stop(ctx, &transportpb.StopRequest{}); err == nil {
			return
		}
	}
	if p.hung.Load() {
		why := fmt.Sprintf("it did not answer for %v when it was to end, and was killed", p.launcher.timing.hung)
		p.condemn(why)
		p.launcher.log.Warn("plugin is hung and is killed", "kind", p.kind, "pid", p.run.ID())
		p.run.kill()
		return
	}
	p.run.terminate()
	grace := time.NewTimer(p.launcher.timing.term)
	defer grace.Stop()
	select {
	case <-p.run.done:
	case <-grace.C:
		p.launcher.log.Warn("plugin did not stop and is killed", "kind", p.kind, "pid", p.run.ID())
		p.run.kill()
	}
}

// discard ends go-plugin's part, and the process if it still runs. It is also
// needed for one that has ended by itself: it closes the connection and
// removes the socket.
func (p *process) discard() {
	discarded := make(chan struct{})
	go func() {
		defer close(discarded)
		p.client.Kill()
	}()
	patience := time.NewTimer(p.launcher.timing.kill)
	defer patience.Stop()
	select {
	case <-discarded:
	case <-patience.C:
		// go-plugin's Shutdown has no deadline of its own.
		p.run.kill()
		<-discarded
	}
	<-p.run.done
}

// ending returns how the process ended, for people, with the last lines of its
// output. It waits up to patience for that to be known and returns "" if the
// process has not ended.
func (p *process) ending(patience time.Duration, lines int) string {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.run.done:
	case <-timer.C:
		return ""
	}
	if p.run.exit == nil {
		return "it was not started"
	}
	// The last words are in the pipe.
	select {
	case <-p.run.stderr.ended:
	case <-timer.C:
	}
	text := p.run.exit.String()
	if why := p.verdict.Load(); why != nil {
		text = *why
	}
	return text + p.lastWords(lines)
}

// lastWords is the end of what the plugin said on stderr, as the end of a
// message.
func (p *process) lastWords(lines int) string {
	last := p.run.stderr.tail.last(lines)
	if len(last) == 0 {
		return ""
	}
	return "; its last output:\n" + strings.Join(last, "\n")
}
