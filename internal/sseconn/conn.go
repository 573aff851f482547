// Package sseconn is a session over the older HTTP+SSE transport of protocol
// 2024-11-05: what the transport "sse" is made of, and what the transport "http"
// falls back to.
package sseconn

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/internal/httpconn"
	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

const methodInitialized = "notifications/initialized"

// Conn is one MCP session over HTTP+SSE (MCP 2024-11-05, "Transports", HTTP with
// SSE): a GET whose stream carries everything that the server says, and a POST
// for each message to it.
//
// The stream is the session: when it ends, the server has forgotten everything,
// and a new stream comes with a new endpoint and needs a new handshake.
type Conn struct {
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
	_ shared.Conn        = (*Conn)(nil)
	_ shared.Initialized = (*Conn)(nil)
	_ shared.Discoverer  = (*Conn)(nil)
)

// Settings are what a session needs besides its client. The zero value works.
type Settings struct {
	Limit    int           // bytes of one message; 0: as many as the kit allows
	Patience time.Duration // for the endpoint; 0: 30 s
	Log      hclog.Logger  // nil: none
}

// Open opens the stream and waits for the endpoint. It owns the client. The
// error is a *[NoStream] if the URL is not that of such a stream.
func Open(ctx context.Context, client *httpconn.Client, s Settings) (*Conn, error) {
	if s.Log == nil {
		s.Log = hclog.NewNullLogger()
	}
	if s.Limit == 0 {
		s.Limit = shared.MaxMessageBytes
	}
	if s.Patience == 0 {
		s.Patience = endpointTime
	}
	c := &Conn{client: client, limit: s.Limit, log: s.Log, inbox: httpconn.NewInbox()}
	c.ctx, c.cancel = context.WithCancel(ctx)
	body, events, err := c.connect(s.Patience)
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
func (c *Conn) read(events *httpconn.Events) error {
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
func (c *Conn) oversize(o *jsonrpc.Outline) {
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

// Discover says that the session begins with initialize: version 2026-07-28 has
// no binding to this transport.
func (c *Conn) Discover() shared.Discover { return shared.DiscoverNever }

// Initialized makes later requests carry the version.
func (c *Conn) Initialized(version string) { c.version.Store(&version) }

// Read returns the next message of the stream.
func (c *Conn) Read(ctx context.Context) (shared.Incoming, error) { return c.inbox.Read(ctx) }

// Write sends m in a goroutine, so that a slow POST holds up nothing that comes
// after. Only notifications/initialized is waited for, since the requests
// after it rely on its arrival.
func (c *Conn) Write(ctx context.Context, m *jsonrpc.Message) error {
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
func (c *Conn) Close(context.Context) error {
	c.inbox.Close(c.cancel)
	c.client.Close()
	return nil
}

func transportEnd(message string) *shared.EndError {
	return &shared.EndError{Class: transportpb.SessionEnd_CLASS_TRANSPORT, Message: message, Retryable: true}
}

// header returns the header fields of a POST. The version is of later
// protocols than the transport, which servers speak over it all the same.
func (c *Conn) header() http.Header {
	h := http.Header{"Content-Type": {"application/json"}}
	if v := c.version.Load(); v != nil {
		h["Mcp-Protocol-Version"] = []string{*v}
	}
	return h
}
