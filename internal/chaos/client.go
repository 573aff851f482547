//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A client is a program that uses the host: an MCP client of the SDK, of one
// protocol era. Its methods may be called concurrently.
type client struct {
	name     string
	base     string // URL of /mcp
	protocol string
	alone    bool   // uses /mcp/<server>, with a session for each, and not /mcp
	proxy    *proxy // between it and the host; nil: none
	rec      *record
	http     *http.Client

	mu       sync.Mutex
	sessions map[string]*mcp.ClientSession // by path
}

func newClient(name, base, protocol string, alone bool, p *proxy, rec *record) *client {
	return &client{
		name: name, base: base, protocol: protocol, alone: alone, proxy: p, rec: rec,
		http:     &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}},
		sessions: map[string]*mcp.ClientSession{},
	}
}

// path and tool are where the client finds a server's tool.
func (c *client) path(s *server) string {
	if c.alone {
		return "/" + s.name
	}
	return ""
}

func (c *client) tool(s *server, name string) string {
	if c.alone {
		return name
	}
	return s.name + "__" + name
}

// connectBound is for the host to answer a handshake, which needs no server.
const connectBound = 10 * time.Second

// session returns the session at a path, made if need be.
func (c *client) session(ctx context.Context, path string) (*mcp.ClientSession, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sessions[path]; s != nil {
		return s, nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectBound)
	defer cancel()
	s, err := mcp.NewClient(&mcp.Implementation{Name: c.name, Version: "1"}, nil).Connect(ctx,
		&mcp.StreamableClientTransport{Endpoint: c.base + path, HTTPClient: c.http},
		&mcp.ClientSessionOptions{ProtocolVersion: c.protocol})
	if err != nil {
		return nil, fmt.Errorf("connecting to /mcp%s: %w", path, err)
	}
	// The SDK falls back to the older handshake when the first is cut.
	if got := s.InitializeResult().ProtocolVersion; got != c.protocol && c.proxy == nil {
		c.rec.violation("%s asked for protocol %s and got %s", c.name, c.protocol, got)
	}
	c.sessions[path] = s
	return s, nil
}

// drop gives up a session that does not work any more.
func (c *client) drop(path string, s *mcp.ClientSession) {
	c.mu.Lock()
	mine := c.sessions[path] == s
	if mine {
		delete(c.sessions, path)
	}
	c.mu.Unlock()
	if mine {
		c.rec.reconnect()
		_ = s.Close() // it has failed already
	}
}

// close ends all sessions in order.
func (c *client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for path, s := range c.sessions {
		if err := s.Close(); err != nil && c.proxy == nil {
			c.rec.violation("%s: closing its session at /mcp%s: %v", c.name, path, err)
		}
	}
	clear(c.sessions)
	c.http.CloseIdleConnections()
}

// do makes one call and judges its result. Cancelling ctx is the caller's own
// wish. The reason is the host's word for an error, with detail for people.
func (c *client) do(ctx context.Context, s *server, tool string, a arguments) (o outcome, reason, detail string) {
	path := c.path(s)
	session, err := c.session(ctx, path)
	if err != nil {
		if ctx.Err() != nil {
			return cancelled, "", ""
		}
		return c.broken(err), "", err.Error()
	}
	limit, cancel := context.WithTimeoutCause(ctx, answerBound+10*time.Second, errSilence)
	defer cancel()
	params := &mcp.CallToolParams{Name: c.tool(s, tool), Arguments: a}
	if tool == "notify" {
		params.SetProgressToken(a.Text)
	}
	res, err := session.CallTool(limit, params)
	switch {
	case err == nil:
		return judge(s, tool, a, res)
	case ctx.Err() != nil:
		return cancelled, "", ""
	case limit.Err() != nil:
		return wrong, "no answer", err.Error()
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok && errors.Unwrap(err) == error(e) {
		return wrong, fmt.Sprintf("JSON-RPC error %d", e.Code), err.Error()
	}
	c.drop(path, session)
	return c.broken(err), "", err.Error()
}

var errSilence = errors.New("no answer")

// broken is the outcome of a call whose connection to the host failed: right
// only where that was our doing.
func (c *client) broken(err error) outcome {
	if c.proxy != nil && err.Error() != "" {
		return cut
	}
	return wrong
}
