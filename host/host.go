// Package host is hermes-host as a library: it reads a configuration, looks
// after the servers in it, and serves what they offer to MCP clients.
//
//	file, diags := config.Load("config.hcl", config.Options{})
//	…
//	h, err := host.New(file, host.Settings{Logger: logger})
//	…
//	err = h.Run(ctx) // until ctx ends
//
// The parts are joined here and nowhere else: launcher makes sessions, one
// supervisor per server keeps one alive, catalog holds what they offer, relay
// carries messages, gateway serves clients.
package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/host/admin"
	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/config"
	"github.com/hermes-host/hermes-host/host/gateway"
	"github.com/hermes-host/hermes-host/host/launcher"
	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/host/supervisor"
	"github.com/hermes-host/hermes-host/internal/rawjson"
)

// Settings are what the program decides, as against what the user configures.
// The zero value works.
type Settings struct {
	// Logger gets the host's log; nil discards it.
	Logger hclog.Logger
	// Listen replaces the configured address of the HTTP endpoint.
	Listen string
	// Version is the program's own, for clients and servers; empty: "dev".
	Version string
	// FirstList is how long after the start a client's list waits for servers
	// that are still connecting; 0: 2 s.
	FirstList time.Duration
	// PluginDirs is where the house's plugins are looked for; empty: beside
	// the executable.
	PluginDirs []string
	// RunDir is where the directories for sockets are made; empty:
	// $XDG_RUNTIME_DIR, else the system's directory for temporary files.
	RunDir string
	// Adopt says that this process starts no others but through the host. On
	// Linux it then becomes the parent of processes that lose theirs, and ends
	// what a killed plugin has left behind. One host of a process at most may
	// have it.
	Adopt bool
	// Admin makes Run and RunStdio answer operators on a unix socket, as
	// package admin describes.
	Admin bool
	// Load reads the configuration again, for [Host.Reload], or another file, for
	// [Host.Preview], if path is not empty. Nil: it can't be reloaded.
	Load func(path string) (*config.File, config.Diagnostics)
	// Watch reloads the configuration when its file changes.
	Watch bool
}

// connecting bounds how many servers connect at a time, so that fifty of them
// waking up together don't starve each other of processor time.
const connecting = 8

// finishing is how long calls in flight may go on when the host stops.
const finishing = 2 * time.Second

// closing bounds the end of all plugins, once their sessions have been closed.
const closing = 5 * time.Second

// A Host looks after a set of servers. Make it with [New], use Run, RunStdio
// or only the questions ([Host.Resolve], [Host.Plugins]), and end it with
// Close. Its methods may be called concurrently, Run and RunStdio once in all.
type Host struct {
	settings Settings
	log      hclog.Logger
	launcher *launcher.Launcher
	catalog  *catalog.Catalog
	relay    *relay.Relay
	gate     *supervisor.Gate
	scopes   *scopes

	life       context.Context // ends when the servers are to end
	end        context.CancelFunc
	running    sync.WaitGroup // members and what serves operators
	stopping   atomic.Bool
	settled    atomic.Bool   // every server has been ready or parked once
	reloading  chan struct{} // has room for one
	generation atomic.Uint64 // of the configuration
	gateway    atomic.Pointer[gateway.Gateway]
	joined     atomic.Int64 // clients that came over the admin socket
	began      time.Time

	events  *admin.Feed[admin.Event]
	logs    *admin.Feed[admin.Line]
	outcome atomic.Pointer[admin.Reloaded]
	missing atomic.Pointer[admin.Missing] // nil: the configuration file is there
	// redactor is the configuration whose secrets no line may show; nil before
	// the first was resolved.
	redactor atomic.Pointer[config.Config]
	untapped atomic.Bool

	mu      sync.RWMutex
	file    *config.File
	cfg     *config.Config // nil before the start
	begun   *config.Config // the first
	url     string         // of the HTTP endpoint; empty: none
	order   []config.Server
	members map[string]*member // those that clients see, by name
	pending map[string]*succession
	ending  map[string]*member // those that were removed, until nothing is left of them
	stopped bool               // nothing more is started
}

// How much is kept for operators.
const (
	keptEvents      = 1000
	keptEventsBytes = 512 << 10
	keptLines       = 2000
	keptLinesBytes  = 1 << 20
)

// New prepares a host. It starts nothing but makes a directory for sockets;
// the error says what is wrong with the place for it.
func New(file *config.File, s Settings) (*Host, error) {
	if s.Logger == nil {
		s.Logger = hclog.NewNullLogger()
	}
	if s.Version == "" {
		s.Version = "dev"
	}
	h := &Host{
		file: file, settings: s, log: s.Logger,
		catalog:   catalog.New(),
		gate:      supervisor.NewGate(connecting),
		members:   map[string]*member{},
		pending:   map[string]*succession{},
		ending:    map[string]*member{},
		reloading: make(chan struct{}, 1),
		began:     time.Now(),
		events:    admin.NewFeed[admin.Event](keptEvents, keptEventsBytes),
		logs:      admin.NewFeed[admin.Line](keptLines, keptLinesBytes),
	}
	h.life, h.end = context.WithCancel(context.Background())
	var err error
	h.launcher, err = launcher.New(h.launch(file))
	if err != nil {
		return nil, err
	}
	h.relay = relay.New(relay.Config{
		Catalog:    h.catalog,
		Lookup:     h.lookup,
		Private:    h.private,
		Left:       h.left,
		Logger:     s.Logger.Named("relay"),
		ServerInfo: implementation(s.Version),
		FirstList:  s.FirstList,
		Redact:     h.redact,
	})
	h.scopes = &scopes{
		scope: h.relay.Scope, changed: h.refresh, log: s.Logger, life: h.life, running: &h.running,
	}
	if s.Admin {
		h.tapLog()
	}
	return h, nil
}

// launch returns the settings of a launcher for the plugins of a file.
func (h *Host) launch(file *config.File) launcher.Settings {
	return launcher.Settings{
		Logger:      h.log.Named("plugin"),
		PluginLevel: h.pluginLevel(),
		PluginDirs:  h.settings.PluginDirs,
		Commands:    commands(file.Plugins),
		RunDir:      h.settings.RunDir,
		ClientInfo:  implementation(h.settings.Version),
		Adopt:       h.settings.Adopt,
	}
}

// pluginLevel is the level that plugins log at: that of the log, and down to
// debug if there is a feed for it.
func (h *Host) pluginLevel() hclog.Level {
	level := h.log.GetLevel()
	if _, ok := h.log.(hclog.InterceptLogger); ok && h.settings.Admin {
		level = min(level, hclog.Debug) // the levels go up from trace
	}
	return level
}

// implementation is the MCP Implementation object that peers are told.
func implementation(version string) []byte {
	return fmt.Appendf(nil, `{"name":"hermes-host","title":"Hermes Host","version":%s}`, rawjson.Quote(version))
}

// A ConfigError says that the configuration cannot be used. Diagnostics can
// tell where and why.
type ConfigError struct{ Diagnostics config.Diagnostics }

// Error returns all diagnostics, with the lines that they speak of.
func (e *ConfigError) Error() string { return e.Diagnostics.String() }

// A ListenError says that the address for clients can't be had.
type ListenError struct {
	Address string
	Err     error
}

// Error says what to do.
func (e *ListenError) Error() string {
	return fmt.Sprintf("listening for clients: %v; stop what uses the address, or set another one in the listen block", e.Err)
}

// Unwrap returns what the system said.
func (e *ListenError) Unwrap() error { return e.Err }

// Run serves clients over HTTP until ctx ends, and then stops everything in
// order. It returns nil then; before that, an error that kept it from starting
// (a [*ConfigError], a [*ListenError]) or ended it.
func (h *Host) Run(ctx context.Context) error {
	defer h.Close()
	addr := h.settings.Listen
	if addr == "" {
		addr = h.file.Listen().Address
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return &ListenError{addr, err}
	}
	defer l.Close()
	if exposed(l) && h.file.Listen().Token == "" {
		return fmt.Errorf("others than this machine can reach %s, and would be free to call every tool: set a token in the configuration's listen block, or listen on 127.0.0.1", addr)
	}
	h.mu.Lock()
	h.url = "http://" + l.Addr().String() + "/mcp"
	h.mu.Unlock()
	return h.serve(ctx, func(ctx context.Context, cfg *config.Config, g *gateway.Gateway) error {
		return h.listen(ctx, l, g)
	})
}

// RunStdio serves one client over in and out, which see the aggregate of all
// servers, until the client or ctx ends. It returns as Run does.
func (h *Host) RunStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	defer h.Close()
	return h.serve(ctx, func(ctx context.Context, _ *config.Config, g *gateway.Gateway) error {
		defer h.drain(g)
		all, _ := h.relay.Endpoint("")
		return g.ServeStdio(ctx, in, out, all)
	})
}

// serve runs the servers for as long as front runs.
func (h *Host) serve(ctx context.Context, front func(context.Context, *config.Config, *gateway.Gateway) error) error {
	plugins := newHasty(resolver{h.launcher})
	cfg, diags := h.file.Resolve(ctx, plugins)
	plugins.stop()
	if ctx.Err() != nil {
		return nil
	}
	if cfg == nil {
		return &ConfigError{diags}
	}
	for _, line := range diags.Lines() {
		h.log.Warn(line)
	}
	g := gateway.New(gateway.Config{
		Endpoints:       h.relay.Endpoint,
		AllowedHosts:    cfg.Listen.AllowedHosts,
		AllowedOrigins:  cfg.Listen.AllowedOrigins,
		SessionIdle:     cfg.Listen.SessionIdleTimeout,
		MaxSessions:     cfg.Listen.MaxSessions,
		MaxRequestBytes: cfg.Listen.MaxRequestBytes,
		Logger:          h.log.Named("gateway"),
	})
	h.gateway.Store(g)
	if err := h.start(cfg); err != nil {
		return err
	}
	defer h.operate(cfg)()
	err := front(ctx, cfg, g)
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// drain ends the gateway in order, and what does not end in time by force.
func (h *Host) drain(g *gateway.Gateway) {
	h.stopping.Store(true)
	h.note("the host is stopping", "")
	h.log.Info("stopping")
	ctx, cancel := context.WithTimeout(context.Background(), finishing)
	defer cancel()
	if g.Shutdown(ctx) != nil {
		h.log.Warn("calls in flight were cancelled", "after", finishing.String())
	}
}

// Close stops all servers in parallel, bounded by their own close timeouts,
// then all plugins. Run and RunStdio do it on their way out; without them the
// caller must. It may be called several times.
func (h *Host) Close() {
	h.stop()
	h.untapLog()
	h.relay.Close()
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	h.launcher.Close(ctx)
}
