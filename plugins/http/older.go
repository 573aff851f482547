package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/hermes-host/hermes-host/internal/httpconn"
	"github.com/hermes-host/hermes-host/internal/sseconn"
	"github.com/hermes-host/hermes-host/shared"
)

// Servers that know only the older HTTP+SSE transport (protocol 2024-11-05)
// refuse the POST of initialize, and answer a GET at the same URL with a stream
// (MCP 2025-11-25, "Streamable HTTP", Backwards Compatibility). The session is
// then dialled anew in that way, and so are all later ones at once, for as long
// as the server has such a stream.

// older is what the plugin remembers of such a server.
const older = "sse"

// dialOlder opens a session over HTTP+SSE with a server that has had one. Nil
// without an error says that it has no such stream any more.
func dialOlder(ctx context.Context, s shared.Session, client *httpconn.Client) (shared.Conn, error) {
	c, err := sseconn.Open(ctx, client, sseconn.Settings{Limit: s.MaxMessageBytes, Patience: checkTime, Log: s.Logger})
	if _, none := errors.AsType[*sseconn.NoStream](err); none {
		s.Remember("")
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s.Advise(client.Place() + ` speaks the older HTTP+SSE transport only; transport "sse" is the right block for it`)
	return c, nil
}

// olderTransport finds out, after a refused initialize, whether the server
// speaks the older transport, and remembers it.
func (p *post) olderTransport(ctx context.Context) bool {
	if p.method != methodInitialize {
		return false
	}
	switch p.status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable:
		if p.conn.speaksSSE(ctx) {
			p.conn.about.Remember(older)
			return true
		}
	}
	return false
}

// speaksSSE asks whether the URL is that of the older transport: there a GET
// gives a stream whose first event is "endpoint".
func (c *conn) speaksSSE(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	resp, err := c.client.Do(ctx, http.MethodGet, nil, http.Header{"Accept": acceptStream}, nil)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || httpconn.MediaType(resp) != "text/event-stream" {
		return false
	}
	events := httpconn.NewEvents(resp.Body, maxRefusal)
	defer events.Release()
	first, err := events.Next()
	return err == nil && first.Name == "endpoint"
}
