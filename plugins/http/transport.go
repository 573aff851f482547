package main

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/internal/httpconn"
	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// Bounds that nobody has needed to configure.
const (
	maxInFlight = 1024            // messages of the host under way
	queueLength = 64              // messages of the server that wait for Read
	deleteTime  = 2 * time.Second // for the DELETE that ends a session

	// How long the end of a lost session waits for the verdicts on other
	// requests under way: most will be told as clearly that they were not
	// delivered, and can then be repeated without fear.
	lastVerdicts = 250 * time.Millisecond
)

// Methods that mean something to the transport.
const (
	methodInitialize  = "initialize"
	methodInitialized = "notifications/initialized"
	methodDiscover    = "server/discover"
)

// stateless is the first MCP version without sessions (SEP-2575). Versions are
// dates and compare as text.
const stateless = "2026-07-28"

// conn is one MCP session over streamable HTTP.
//
// Each message of the host is a POST in a goroutine of its own, which also
// reads the answer, be it JSON or a stream, and hands what comes to Read.
// One more goroutine keeps the server-to-client stream open (listen.go). All of
// them end with ctx, and Close waits for them.
type conn struct {
	client *httpconn.Client
	limit  int // bytes of one message
	log    hclog.Logger

	ctx    context.Context // ends all traffic
	cancel context.CancelFunc
	wg     sync.WaitGroup

	in   chan shared.Incoming
	over chan struct{} // closed when Read has nothing more to wait for

	session atomic.Pointer[string] // the Mcp-Session-Id, nil if there is none
	version atomic.Pointer[string] // the MCP version agreed on, nil before Initialized
	changes atomic.Pointer[[]string]

	mu       sync.Mutex
	inFlight int
	end      error // why the session is over, nil while it lives
	overOnce sync.Once
	closing  bool
	check    *check // of the session, under way
	pings    int
}

var (
	_ shared.Conn        = (*conn)(nil)
	_ shared.Initialized = (*conn)(nil)
)

// dial makes a session's connection. Nothing is sent yet: the first request
// shows whether the server can be reached.
func dial(_ context.Context, s shared.Session, c config) (shared.Conn, error) {
	client, err := httpconn.New(c.settings())
	if err != nil {
		return nil, shared.ConfigError(err.Error())
	}
	return newConn(client, s.MaxMessageBytes, s.Logger), nil
}

func newConn(client *httpconn.Client, limit int, log hclog.Logger) *conn {
	if log == nil {
		log = hclog.NewNullLogger()
	}
	if limit == 0 {
		limit = shared.MaxMessageBytes
	}
	c := &conn{
		client: client,
		limit:  limit,
		log:    log,
		in:     make(chan shared.Incoming, queueLength),
		over:   make(chan struct{}),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Initialized makes later requests carry the version.
func (c *conn) Initialized(version string) { c.version.Store(&version) }

// Read returns the next message that came on any stream.
func (c *conn) Read(ctx context.Context) (shared.Incoming, error) {
	select {
	case m := <-c.in:
		return m, nil
	default:
	}
	select {
	case m := <-c.in:
		return m, nil
	case <-ctx.Done():
		return shared.Incoming{}, context.Cause(ctx)
	case <-c.over:
	}
	select {
	case m := <-c.in: // what came before the end
		return m, nil
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return shared.Incoming{}, c.end
}

// Write sends m in a goroutine, so that a slow server holds up nothing that
// comes after: cancellations above all. Only notifications/initialized is
// waited for, since the requests after it rely on its arrival. ctx, with the
// session, bounds the whole exchange.
func (c *conn) Write(ctx context.Context, m *jsonrpc.Message) error {
	p := &post{
		conn:   c,
		method: m.Method,
		header: c.header(ctx, m),
		body:   m.Append(make([]byte, 0, m.Size())),
		push:   c.push,
	}
	if m.IsRequest() {
		p.id = m.ID
		p.related = number(m.ID)
	}
	if err := c.begin(); err != nil {
		return err
	}
	if m.Method == methodInitialized {
		defer c.finish()
		return p.announce(ctx)
	}
	go func() {
		defer c.finish()
		p.run(ctx)
	}()
	return nil
}

// begin counts a message in, or says why it can't go out any more.
func (c *conn) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	refuse := func(reason transportpb.TransportError_Reason, message string) error {
		return &shared.WriteError{Reason: reason, Delivered: deliveredNo, Message: message}
	}
	switch {
	case c.closing:
		return net.ErrClosed
	case c.end != nil:
		return refuse(reasonOf(c.end), c.end.Error())
	case c.inFlight >= maxInFlight:
		return refuse(transportpb.TransportError_REASON_CONNECTION, "too many requests are under way to "+c.client.Place())
	}
	c.inFlight++
	c.wg.Add(1)
	return nil
}

func (c *conn) finish() {
	c.mu.Lock()
	c.inFlight--
	last := c.end != nil && c.inFlight == 0
	c.mu.Unlock()
	if last {
		c.setOver()
	}
	c.wg.Done()
}

func (c *conn) setOver() { c.overOnce.Do(func() { close(c.over) }) }

// fail ends the session; the first reason counts.
func (c *conn) fail(end error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end != nil {
		return
	}
	c.end = end
	if c.inFlight == 0 {
		c.setOver()
	} else {
		time.AfterFunc(lastVerdicts, c.setOver)
	}
}

// lost reports whether the server no longer knows the session.
func (c *conn) lost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end != nil && reasonOf(c.end) == transportpb.TransportError_REASON_SESSION_LOST
}

// push hands a message to Read. It waits while the host is slow, and returns
// false if ctx ends meanwhile.
func (c *conn) push(ctx context.Context, m shared.Incoming) bool {
	select {
	case c.in <- m:
		return true
	default:
	}
	select {
	case c.in <- m:
		return true
	case <-ctx.Done():
		return false
	}
}

// Close abandons what is under way, tells the server that the session is over,
// and returns when nothing of it is left.
func (c *conn) Close(ctx context.Context) error {
	c.mu.Lock()
	first := !c.closing
	c.closing = true
	c.mu.Unlock()
	c.fail(net.ErrClosed)
	c.cancel()
	c.wg.Wait()
	c.setOver()
	if id := c.session.Load(); first && id != nil && !c.lost() {
		c.delete(ctx)
	}
	c.client.Close()
	return nil
}

// delete ends the session on the server's side. Servers may refuse that with
// 405, and nothing can be done about any failure.
//
// MCP 2025-11-25, "Streamable HTTP", Session Management, rule 5.
func (c *conn) delete(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, deleteTime)
	defer cancel()
	resp, err := c.client.Do(ctx, http.MethodDelete, nil, c.sessionHeader(http.Header{}), nil)
	if err != nil {
		c.log.Debug("ending the session on the server", "error", err)
		return
	}
	resp.Body.Close()
}
