package main

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/internal/httpconn"
	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// deleteTime bounds the DELETE that ends a session.
const deleteTime = 2 * time.Second

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
	about  shared.Session
	limit  int // bytes of one message
	log    hclog.Logger

	ctx    context.Context // ends all traffic
	cancel context.CancelFunc
	inbox  *httpconn.Inbox

	session atomic.Pointer[string]   // the Mcp-Session-Id, nil if there is none
	version atomic.Pointer[string]   // the MCP version agreed on, nil before Initialized
	stream  atomic.Bool              // the server-to-client stream is open
	changes atomic.Pointer[[]string] // the list_changed notices that the server has promised

	mu    sync.Mutex
	check *check // of the session, under way
	pings int    // of checks so far
}

var (
	_ shared.Conn        = (*conn)(nil)
	_ shared.Initialized = (*conn)(nil)
)

// dial makes a session's connection. Nothing is sent yet, unless the server is
// known to speak the older transport: the first request shows whether it can
// be reached.
func dial(ctx context.Context, s shared.Session, c config) (shared.Conn, error) {
	client, err := httpconn.New(c.settings())
	if err != nil {
		return nil, err
	}
	if s.Remembered() == older {
		if conn, err := dialOlder(ctx, s, client); conn != nil || err != nil {
			return conn, err
		}
	}
	conn := newConn(client, s.MaxMessageBytes, s.Logger)
	conn.about = s
	return conn, nil
}

func newConn(client *httpconn.Client, limit int, log hclog.Logger) *conn {
	if log == nil {
		log = hclog.NewNullLogger()
	}
	if limit == 0 {
		limit = shared.MaxMessageBytes
	}
	c := &conn{client: client, limit: limit, log: log, inbox: httpconn.NewInbox()}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Initialized makes later requests carry the version.
func (c *conn) Initialized(version string) { c.version.Store(&version) }

// Read returns the next message that came on any stream.
func (c *conn) Read(ctx context.Context) (shared.Incoming, error) { return c.inbox.Read(ctx) }

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
		push:   c.inbox.Push,
	}
	if m.IsRequest() {
		p.id = m.ID
		p.related = number(m.ID)
	}
	if m.Method == methodInitialized {
		return c.inbox.Do(func() error { return p.announce(ctx) })
	}
	return c.inbox.Go(func() { p.run(ctx) })
}

// Close abandons what is under way, tells the server that the session is over,
// and returns when nothing of it is left.
func (c *conn) Close(ctx context.Context) error {
	first := c.inbox.Close(c.cancel)
	if id := c.session.Load(); first && id != nil && !c.inbox.Lost() {
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
