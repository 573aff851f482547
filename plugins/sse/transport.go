package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/internal/httpconn"
	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

const methodInitialized = "notifications/initialized"

// conn is one MCP session over HTTP+SSE (MCP 2024-11-05, "Transports", HTTP with
// SSE): a GET whose stream carries everything that the server says, and a POST
// for each message to it.
//
// The stream is the session: when it ends, the server has forgotten everything,
// and a new stream comes with a new endpoint and needs a new handshake.
type conn struct {
	client   *httpconn.Client
	endpoint *url.URL // for the POSTs
	limit    int      // bytes of one message
	log      hclog.Logger

	ctx    context.Context // ends all traffic
	cancel context.CancelFunc
	inbox  *httpconn.Inbox

	version atomic.Pointer[string] // the MCP version agreed on, nil before Initialized
}

var (
	_ shared.Conn        = (*conn)(nil)
	_ shared.Initialized = (*conn)(nil)
)

// dial opens the stream and waits for the endpoint.
func dial(ctx context.Context, s shared.Session, c config) (shared.Conn, error) {
	client, err := httpconn.New(c.settings())
	if err != nil {
		return nil, shared.ConfigError(err.Error())
	}
	return open(ctx, client, s.MaxMessageBytes, s.Logger)
}

func open(ctx context.Context, client *httpconn.Client, limit int, log hclog.Logger) (*conn, error) {
	if log == nil {
		log = hclog.NewNullLogger()
	}
	if limit == 0 {
		limit = shared.MaxMessageBytes
	}
	c := &conn{client: client, limit: limit, log: log, inbox: httpconn.NewInbox()}
	c.ctx, c.cancel = context.WithCancel(ctx)
	body, events, err := c.connect()
	if err != nil {
		c.cancel()
		client.Close()
		return nil, err
	}
	c.inbox.Background(func() {
		defer body.Close()
		defer events.Release()
		c.inbox.End(c.read(events))
	})
	return c, nil
}

// read hands on what the server says, until the stream ends. It returns why
// that is the session's end.
func (c *conn) read(events *httpconn.Events) error {
	for {
		e, err := events.Next()
		switch {
		case err == io.EOF:
			return transportEnd(c.client.Place() + " ended the event stream")
		case errors.Is(err, io.ErrUnexpectedEOF):
			return transportEnd(c.client.Place() + " closed the connection of the event stream")
		case err != nil:
			return transportEnd(c.client.Redact("the event stream of " + c.client.Place() + " broke: " + err.Error()))
		case e.Oversize != nil:
			c.oversize(e.Oversize)
		case e.Name == "message" && len(e.Data) > 0:
			err := shared.Receive(e.Data, func(in shared.Incoming) { c.inbox.Push(c.ctx, in) })
			if err != nil {
				c.log.Warn("the server sent what is no message", "error", err)
			}
		}
	}
}

// oversize fails the requests that a message over the limit answers.
func (c *conn) oversize(o *jsonrpc.Outline) {
	ids := o.Answers()
	if len(ids) == 0 {
		c.log.Warn("dropped a message of the server that is over the limit", "limit", c.limit)
	}
	for _, id := range ids {
		in := shared.Incoming{Failure: httpconn.Oversize(c.client.Place(), c.limit)}
		in.ID = id
		c.inbox.Push(c.ctx, in)
	}
}

// Initialized makes later requests carry the version.
func (c *conn) Initialized(version string) { c.version.Store(&version) }

// Read returns the next message of the stream.
func (c *conn) Read(ctx context.Context) (shared.Incoming, error) { return c.inbox.Read(ctx) }

// Write sends m in a goroutine, so that a slow POST holds up nothing that comes
// after. Only notifications/initialized is waited for, since the requests
// after it rely on its arrival.
func (c *conn) Write(ctx context.Context, m *jsonrpc.Message) error {
	p := &post{conn: c, method: m.Method, body: m.Append(make([]byte, 0, m.Size()))}
	if m.IsRequest() {
		p.id = m.ID
	}
	if m.Method == methodInitialized {
		return c.inbox.Do(func() error { p.run(ctx); return nil })
	}
	return c.inbox.Go(func() { p.run(ctx) })
}

// Close ends the stream, which tells the server that the session is over.
func (c *conn) Close(context.Context) error {
	c.inbox.Close(c.cancel)
	c.client.Close()
	return nil
}

func transportEnd(message string) *shared.EndError {
	return &shared.EndError{Class: transportpb.SessionEnd_CLASS_TRANSPORT, Message: message, Retryable: true}
}

// header returns the header fields of a POST. The version is of later
// protocols than the transport, which servers speak over it all the same.
func (c *conn) header() http.Header {
	h := http.Header{"Content-Type": {"application/json"}}
	if v := c.version.Load(); v != nil {
		h["Mcp-Protocol-Version"] = []string{*v}
	}
	return h
}
