// Package launcher runs transport plugins: it finds, verifies, starts, shares
// and stops their processes, and is the host's side of the sessions that they
// hold.
//
// A [Launcher] owns every plugin process of a host. [Launcher.Transport] gives
// the supervisor a [session.Transport]: each Connect gets a process, of its own
// or shared as the plugin's description and the server's configuration say,
// and opens one session on it. A process that has ended is never used again;
// the next Connect starts another.
//
// Four things keep processes from staying behind. Each plugin has a process
// group of its own, which is killed as soon as the plugin has ended, so that
// what the plugin started goes with it. What has left that group is found by way
// of its parents, see estate. Each plugin's stdin is a lifeline: a pipe that the
// host holds open, whose end tells the plugin that the host is gone. And a guard
// outlives the host for a second and kills what is still there.
package launcher

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/host/session"
)

// Settings are what a Launcher needs to know. The zero value works: plugins
// beside the executable, and no log.
type Settings struct {
	// Logger gets what plugins log, and what happens to their processes.
	// Nil discards all of it.
	Logger hclog.Logger

	// PluginLevel is the least level that plugins are told to log at; NoLevel
	// stands for Logger's.
	PluginLevel hclog.Level

	// PluginDirs is where hermes-transport-<kind> is looked for, in this
	// order. Empty: the directory of the running executable.
	PluginDirs []string

	// Commands are plugins that are named one by one, by kind. They go before
	// those in PluginDirs.
	Commands map[string]Command

	// RunDir is where the launcher makes its directory for sockets. Empty:
	// $XDG_RUNTIME_DIR if that is a directory, else the system's directory
	// for temporary files.
	RunDir string

	// ClientInfo is the MCP Implementation object that servers are told.
	ClientInfo json.RawMessage

	// Adopt says that this process starts no others but through this Launcher.
	// On Linux it then becomes the parent of those that a plugin leaves behind,
	// and ends them.
	Adopt bool

	timing timing
}

// timing bounds every wait. Tests shorten it.
type timing struct {
	handshake   time.Duration // from the start of a process to its handshake
	describe    time.Duration // for Describe and Validate to answer
	healthEvery time.Duration // between health checks of a process
	healthWait  time.Duration // for a health check to answer; two misses kill
	hung        time.Duration // for a health check to answer while something is to end
	stop        time.Duration // for Stop to close all sessions
	term        time.Duration // from SIGTERM to SIGKILL
	kill        time.Duration // for go-plugin's own shutdown
	idle        time.Duration // how long a process without a session is kept
	settle      time.Duration // for a killed process to be gone
}

func (t timing) withDefaults() timing {
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	set(&t.handshake, 10*time.Second)
	set(&t.describe, 5*time.Second)
	set(&t.healthEvery, 15*time.Second)
	set(&t.healthWait, 5*time.Second)
	set(&t.hung, 3*time.Second)
	set(&t.stop, 5*time.Second)
	set(&t.term, time.Second)
	set(&t.kill, 3*time.Second)
	set(&t.idle, 10*time.Second)
	set(&t.settle, 2*time.Second)
	return t
}

// A Launcher owns the plugin processes of a host. Its methods may be called
// concurrently.
type Launcher struct {
	log     hclog.Logger
	level   hclog.Level // of plugins
	dirs    []string
	info    json.RawMessage
	timing  timing
	run     *runDir
	runDir  string // Settings.RunDir
	estate  *estate
	spare   bool // the estate is another's
	guard   *guard
	ctx     context.Context // ends when Close begins
	cancel  context.CancelCauseFunc
	running sync.WaitGroup // launches, processes and sessions
	cleanup sync.Once

	mu       sync.Mutex
	closed   bool
	commands map[string]Command
	families map[string]*family
	live     map[*process]struct{}
}

// New returns a Launcher with a socket directory of its own, and removes the
// directories that dead hosts left behind. The error says what is wrong with
// the place for that directory.
func New(s Settings) (*Launcher, error) {
	if s.Logger == nil {
		s.Logger = hclog.NewNullLogger()
	}
	l, err := newLauncher(s)
	if err != nil {
		return nil, err
	}
	l.estate = newEstate(s.Adopt, l.log)
	l.guard = newGuard(l.log, l.estate.home)
	return l, nil
}

// Spare returns a Launcher that is like l but for its commands, to learn what
// their plugins say before l gets them. None of its processes is one of l's. It
// must be closed before l.
func (l *Launcher) Spare(commands map[string]Command) (*Launcher, error) {
	spare, err := newLauncher(Settings{
		Logger: l.log, PluginLevel: l.level, PluginDirs: l.dirs, Commands: commands, RunDir: l.runDir, ClientInfo: l.info, timing: l.timing,
	})
	if err != nil {
		return nil, err
	}
	spare.estate, spare.spare = l.estate, true
	spare.guard = newGuard(l.log, l.estate.home)
	return spare, nil
}

// newLauncher returns a Launcher that lacks its estate and its guard.
func newLauncher(s Settings) (*Launcher, error) {
	dirs := s.PluginDirs
	if len(dirs) == 0 {
		dirs = executableDirs()
	}
	run, err := newRunDir(s.RunDir, s.Logger)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Launcher{
		log:      s.Logger,
		level:    cmp.Or(s.PluginLevel, s.Logger.GetLevel()),
		dirs:     dirs,
		info:     s.ClientInfo,
		timing:   s.timing.withDefaults(),
		run:      run,
		runDir:   s.RunDir,
		ctx:      ctx,
		cancel:   cancel,
		commands: maps.Clone(s.Commands),
		families: make(map[string]*family),
		live:     make(map[*process]struct{}),
	}, nil
}

// SetCommands replaces Settings.Commands, as a reload of the configuration
// does. Sessions go on; a process that was started from another file than its
// kind now names gets no new ones.
func (l *Launcher) SetCommands(commands map[string]Command) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commands = maps.Clone(commands)
}

var errClosing = &session.End{Class: session.Closed, Message: "the host is shutting down"}

// Close stops all plugins in parallel and returns when nothing is left of
// them. When ctx ends it kills what has not stopped; so does a second call, at
// once. Connect and Describe fail from the first call on.
func (l *Launcher) Close(ctx context.Context) {
	l.mu.Lock()
	again := l.closed
	l.closed = true
	processes := make([]*process, 0, len(l.live))
	for p := range l.live {
		processes = append(processes, p)
	}
	l.mu.Unlock()

	l.cancel(errClosing)
	var stopping sync.WaitGroup
	for _, p := range processes {
		if again {
			p.run.kill()
		}
		stopping.Go(func() { p.stop(ctx) })
	}
	stopping.Wait()

	idle := make(chan struct{})
	go func() {
		l.running.Wait()
		close(idle)
	}()
	patience := time.NewTimer(l.timing.settle)
	defer patience.Stop()
	select {
	case <-idle:
	case <-patience.C:
		l.log.Error("plugins are still there after they were killed")
	}
	l.cleanup.Do(func() {
		l.guard.close()
		if !l.spare {
			l.estate.home.Close()
		}
		if err := l.run.remove(); err != nil {
			l.log.Warn("removing the socket directory", "error", err)
		}
	})
}

// enter counts a piece of work that Close waits for; its end is
// l.running.Done.
func (l *Launcher) enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosing
	}
	l.running.Add(1)
	return nil
}

// fault is an End that only a person can mend.
func fault(format string, args ...any) *session.End {
	return &session.End{Class: session.ConfigFault, Message: fmt.Sprintf(format, args...)}
}

// gone is an End that trying again may mend.
func gone(format string, args ...any) *session.End {
	return &session.End{Class: session.Gone, Message: fmt.Sprintf(format, args...), Retryable: true}
}
