package shared

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"runtime"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/hermes-host/hermes-host/internal/pluginrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// How long sessions may take to end in order before what is left is ended by
// force. Once the host is gone nobody else clears up, and nobody waits either.
const (
	orderlyEnd  = 5 * time.Second // the host is there, and said stop or sent a signal
	orphanedEnd = time.Second     // the host is gone
	forcedEnd   = 500 * time.Millisecond
)

// Serve is what a plugin's main calls, once, before it writes anything to
// stdout. It returns when the host has stopped the plugin and all sessions are
// closed; main then returns too.
//
// A process that was not started by a host prints a sentence to stderr and
// exits with status 1. A mistake in p, such as a configuration struct that is
// no schema, panics.
//
// When the host is gone (end of file on stdin, where the host has made that
// the lifeline) all sessions are closed and the process exits within two
// seconds, whatever else hangs; if it leads a process group, that group goes
// with it. SIGTERM closes the sessions and exits. SIGINT is ignored, since a
// terminal sends it to everybody and the host decides; so is SIGHUP.
func Serve[C any](p Plugin[C]) {
	svc, err := newService(p)
	if err != nil {
		panic(fmt.Sprintf("shared.Serve: transport plugin %q: %v", p.Kind, err))
	}
	if os.Getenv(pluginrpc.Handshake.MagicCookieKey) != pluginrpc.Handshake.MagicCookieValue {
		fmt.Fprintf(os.Stderr, "This is the transport plugin %q (version %s) of hermes-host, which starts it when a server needs it.\n"+
			"It does nothing by itself. `hermes-host plugins` lists the plugins that a host finds.\n", p.Kind, p.Version)
		os.Exit(1)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(max(1, p.Processors))
	}
	// go-plugin replaces os.Stderr later; the host reads log lines from this
	// one.
	svc.log = hclog.New(&hclog.LoggerOptions{
		Name:       p.Kind,
		Level:      logLevel(),
		Output:     os.Stderr,
		JSONFormat: true,
	})

	var server *grpc.Server
	stop := func() { server.Stop() }
	config := &plugin.ServeConfig{
		HandshakeConfig:  pluginrpc.Handshake,
		VersionedPlugins: pluginrpc.ServePlugins(svc),
		Logger:           svc.log.Named("go-plugin"),
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			server = pluginrpc.NewServer(opts)
			svc.exit = func() {
				// The reply to Stop gets out if the host reads it. Streams of
				// go-plugin's own never end by themselves.
				time.AfterFunc(forcedEnd, stop)
				go server.GracefulStop()
			}
			watch(svc, stop)
			return server
		},
	}
	plugin.Serve(config)
	// The host has called go-plugin's Shutdown, or one of the watchers has
	// stopped the server.
	svc.closeAll(orderlyEnd)
}

func logLevel() hclog.Level {
	if l := hclog.LevelFromString(os.Getenv(pluginrpc.EnvLogLevel)); l != hclog.NoLevel {
		return l
	}
	return hclog.Info
}

// watch starts the goroutines that end the plugin for reasons other than the
// host's calls. They live as long as the process.
func watch(svc *service, stop func()) {
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	go func() {
		<-terminate
		svc.log.Debug("closing all sessions: SIGTERM")
		svc.closeAll(orderlyEnd)
		stop()
	}()
	if os.Getenv(pluginrpc.EnvLifeline) != pluginrpc.LifelineStdin {
		return
	}
	// A plugin that is stopped when the host dies is woken with SIGHUP (POSIX,
	// _exit, "orphaned process group"), which must not keep it from its duties.
	// It is caught and not ignored, since servers would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	lifeline := os.Stdin
	go func() {
		_, _ = io.Copy(io.Discard, lifeline)
		time.AfterFunc(orphanedEnd+forcedEnd, func() { leave() })
		svc.closeAll(orphanedEnd)
		leave()
	}()
}

// newService checks p and strips it of its type parameter.
func newService[C any](p Plugin[C]) (*service, error) {
	fields, err := objectOf(reflect.TypeFor[C]())
	if err != nil {
		return nil, fmt.Errorf("its configuration: %w", err)
	}
	schema, err := fields.schema()
	switch {
	case err != nil:
		return nil, err
	case p.Kind == "":
		return nil, fmt.Errorf("it has no Kind")
	case (p.Dial == nil) == (p.Transport == nil):
		return nil, fmt.Errorf("exactly one of Dial and Transport must be set")
	}
	svc := &service{
		about: &transportpb.DescribeResponse{
			Kind:         p.Kind,
			Version:      p.Version,
			Features:     p.Features,
			MultiSession: p.MultiSession,
			Schema:       schema,
		},
		discover: p.Discover,
		log:      hclog.NewNullLogger(),
		exit:     func() {},
		stopping: make(chan struct{}),
	}
	svc.forced, svc.force = context.WithCancel(context.Background())
	svc.validate = func(block json.RawMessage) []*transportpb.Diagnostic {
		var c C
		if fault := decodeConfig(&c, block); fault != nil {
			return []*transportpb.Diagnostic{fault.diagnostic()}
		}
		if p.Validate == nil {
			return nil
		}
		var all []*transportpb.Diagnostic
		for _, d := range p.Validate(c) {
			all = append(all, d.proto())
		}
		return all
	}
	svc.dial = func(ctx context.Context, s Session, block json.RawMessage) (Conn, error) {
		var c C
		if fault := decodeConfig(&c, block); fault != nil {
			return nil, ConfigError("invalid configuration: "+fault.message, fault.path...)
		}
		if p.Dial != nil {
			return p.Dial(ctx, s, c)
		}
		t, err := p.Transport(ctx, s, c)
		if err != nil {
			return nil, err
		}
		conn, err := t.Connect(ctx)
		if err != nil {
			return nil, err
		}
		return Adapt(conn), nil
	}
	return svc, nil
}
