// Package gateway is the MCP server that clients connect to, over streamable
// HTTP ([Gateway.ServeHTTP]) and over stdio ([Gateway.ServeStdio]).
//
// One address speaks both eras of the protocol. Up to 2025-11-25 a client
// initializes a session and everything belongs to it (legacy.go, session.go).
// From 2026-07-28 on each request stands alone and describes its client in
// _meta (modern.go). The request says which era it belongs to (era.go).
//
// Messages stay raw: the gateway reads the envelope, calls a [relay.Endpoint]
// in the goroutine of the HTTP request and writes its result undecoded. An
// answer is application/json unless something has to be said before it; then
// the response becomes an event stream (exchange.go, stream.go).
package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// Config says what to serve and within which limits. Endpoints is required;
// the zero value of everything else means the default that is named there.
type Config struct {
	// Endpoints finds the endpoint of /mcp (name "") or /mcp/{name}. It must
	// return the same endpoint for as long as the name is known, and be quick:
	// every request asks it.
	Endpoints func(name string) (relay.Endpoint, bool)

	// AllowedHosts are the Host header values to accept besides loopback names,
	// with or without a port. "*" accepts all of them.
	AllowedHosts []string
	// AllowedOrigins are the Origin header values to accept besides those of
	// loopback, such as "https://example.com". "*" accepts all of them.
	AllowedOrigins []string

	SessionIdle     time.Duration // ends a session without request or stream; 30 minutes
	MaxSessions     int           // 10,000
	MaxRequestBytes int64         // of one message of a client; 64 MiB
	KeepAlive       time.Duration // silence on a stream before a comment is sent; 15 s
	Grace           time.Duration // a call goes on so long after its client's connection broke (before 2026-07-28); 60 s
	ReplayBytes     int           // kept per session for resumption; 1 MiB

	Logger hclog.Logger // nil discards
}

func (c *Config) setDefaults() {
	if c.SessionIdle <= 0 {
		c.SessionIdle = 30 * time.Minute
	}
	if c.MaxSessions <= 0 {
		c.MaxSessions = 10000
	}
	if c.MaxRequestBytes <= 0 {
		c.MaxRequestBytes = 64 << 20
	}
	if c.KeepAlive <= 0 {
		c.KeepAlive = 15 * time.Second
	}
	if c.Grace <= 0 {
		c.Grace = time.Minute
	}
	if c.ReplayBytes <= 0 {
		c.ReplayBytes = 1 << 20
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
}

// errShutdown is the cause of contexts that end with the gateway.
var errShutdown = errors.New("the host is shutting down")

// A Gateway serves MCP clients. Its methods may be called from any goroutine.
type Gateway struct {
	cfg      Config
	log      hclog.Logger
	guard    guard
	sessions sessions

	active  atomic.Int64  // requests being served
	idle    chan struct{} // told when closing and active reaches 0
	closing atomic.Bool

	serving context.Context // ends when closing is set, and with it streams that wait for events
	close   context.CancelCauseFunc
	ctx     context.Context // ends when calls in flight must end
	cancel  context.CancelCauseFunc

	closeOnce sync.Once
}

// New returns a gateway. End it with [Gateway.Shutdown].
func New(cfg Config) *Gateway {
	cfg.setDefaults()
	g := &Gateway{
		cfg:   cfg,
		log:   cfg.Logger,
		guard: newGuard(cfg.AllowedHosts, cfg.AllowedOrigins),
		idle:  make(chan struct{}, 1),
	}
	g.serving, g.close = context.WithCancelCause(context.Background())
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	g.sessions.init(g)
	return g
}

// Server returns an http.Server with the time limits that suit the gateway:
// headers must come quickly, while bodies and responses may take long. There
// is no WriteTimeout because event streams live for hours; the gateway bounds
// each write to a stream itself. To stop it, call [Gateway.Shutdown] first: it
// ends the streams that [http.Server.Shutdown] would wait for.
func (g *Gateway) Server() *http.Server {
	return &http.Server{
		Handler:           g,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          g.log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
	}
}

// ServeHTTP serves /mcp and /mcp/{server}.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.enter() {
		w.Header().Set("Retry-After", "1")
		writeError(w, http.StatusServiceUnavailable, nil, jsonrpc.Errorf(codeServer, "%v", errShutdown))
		return
	}
	defer g.leave()
	defer g.recover(w, r)

	if !g.cors(w, r) {
		return
	}
	name, ok := endpointName(r.URL.Path)
	if !ok {
		writeError(w, http.StatusNotFound, nil, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "MCP is served at /mcp and /mcp/{server}, not at this path"))
		return
	}
	endpoint, ok := g.cfg.Endpoints(name)
	if !ok {
		writeError(w, http.StatusNotFound, nil, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "no server or endpoint named %q is configured; /mcp serves all servers", name))
		return
	}
	switch r.Method {
	case http.MethodPost:
		g.post(w, r, name, endpoint)
	case http.MethodGet:
		g.get(w, r, name)
	case http.MethodDelete:
		g.delete(w, r, name)
	default:
		methodNotAllowed(w, corsMethods)
	}
}

// endpointName returns the {server} of a path, "" for the aggregate.
func endpointName(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, "/mcp")
	if !ok {
		return "", false
	}
	if rest == "" || rest == "/" {
		return "", true
	}
	name, ok := strings.CutPrefix(rest, "/")
	name = strings.TrimSuffix(name, "/")
	return name, ok && name != "" && !strings.Contains(name, "/")
}

// End ends the sessions of an endpoint, for when its name is no longer known.
func (g *Gateway) End(name string) { g.sessions.endOf(name) }

// Sessions returns the number of sessions, for status and metrics.
func (g *Gateway) Sessions() int { return g.sessions.count() }

// Shutdown ends everything in order: new requests are refused, streams that
// wait for events end, calls in flight may finish until ctx ends and are then
// cancelled, and sessions leave their endpoints. It returns the cause of ctx
// if calls had to be cancelled. It must be called before the endpoints stop; a
// second call waits for the same end.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.closeOnce.Do(func() {
		g.closing.Store(true)
		g.close(errShutdown)
		if g.active.Load() == 0 {
			g.signalIdle()
		}
	})
	var err error
	select {
	case <-g.idle:
	case <-ctx.Done():
		err = context.Cause(ctx)
		g.cancel(errShutdown)
		<-g.idle // Handle returns promptly once its context has ended
	}
	g.signalIdle() // for further callers
	g.cancel(errShutdown)
	g.sessions.endAll(errShutdown)
	return err
}

// enter counts a request, unless the gateway is closing. Every true is
// followed by leave.
func (g *Gateway) enter() bool {
	g.active.Add(1)
	if !g.closing.Load() {
		return true
	}
	g.leave()
	return false
}

func (g *Gateway) leave() {
	if g.active.Add(-1) == 0 && g.closing.Load() {
		g.signalIdle()
	}
}

func (g *Gateway) signalIdle() {
	select {
	case g.idle <- struct{}{}:
	default:
	}
}

// recover keeps a panic in one request from being the end of the process.
// http.ErrAbortHandler is net/http's own signal and passes.
func (g *Gateway) recover(w http.ResponseWriter, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler {
		panic(v)
	}
	g.log.Error("a request panicked", "method", r.Method, "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
	writeError(w, http.StatusInternalServerError, nil, errPanic)
}

// localAddr returns the address on which the request came in, nil if it is
// not known.
func localAddr(r *http.Request) net.Addr {
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return addr
}
