package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/hermes-host/hermes-host/internal/httpconn"
	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// Header fields of MCP, in the form that net/http uses for them.
const (
	headerSession   = "Mcp-Session-Id"
	headerVersion   = "Mcp-Protocol-Version"
	headerMethod    = "Mcp-Method"
	headerName      = "Mcp-Name"
	headerLastEvent = "Last-Event-Id"
)

// metaVersion is where requests of stateless sessions carry the MCP version.
const metaVersion = "io.modelcontextprotocol/protocolVersion"

var (
	contentJSON  = []string{"application/json"}
	acceptBoth   = []string{"application/json, text/event-stream"}
	acceptStream = []string{"text/event-stream"}
)

// header returns the header fields of a message's POST.
//
// The routing fields Mcp-Method, Mcp-Name and Mcp-Param-* are of MCP 2026-07-28
// (SEP-2243); the last come from the host, which knows the tools' schemas.
func (c *conn) header(ctx context.Context, m *jsonrpc.Message) http.Header {
	h := make(http.Header, 8)
	h["Content-Type"] = contentJSON
	h["Accept"] = acceptBoth
	version := ""
	if v := c.version.Load(); v != nil {
		version = *v
	} else if m.Method != methodInitialize {
		version = rawjson.Text(m.Params, "_meta", metaVersion)
	}
	if version < stateless {
		if version != "" {
			h[headerVersion] = []string{version}
		}
		if id := c.session.Load(); id != nil && m.Method != methodInitialize {
			h[headerSession] = []string{*id}
		}
		return h
	}
	h[headerVersion] = []string{version}
	if m.Method == "" {
		return h
	}
	h[headerMethod] = []string{httpconn.HeaderValue(m.Method)}
	if name, ok := nameOf(m); ok {
		h[headerName] = []string{httpconn.HeaderValue(name)}
	}
	for name, value := range shared.Headers(ctx) {
		h.Set(name, value)
	}
	return h
}

// nameOf returns what a request is about.
func nameOf(m *jsonrpc.Message) (string, bool) {
	member := ""
	switch m.Method {
	case "tools/call", "prompts/get":
		member = "name"
	case "resources/read":
		member = "uri"
	default:
		return "", false
	}
	raw := rawjson.Get(m.Params, member)
	return rawjson.Unquote(raw), raw != nil
}

// sessionHeader adds what tells the server which session is meant.
func (c *conn) sessionHeader(h http.Header) http.Header {
	if v := c.version.Load(); v != nil {
		h[headerVersion] = []string{*v}
	}
	if id := c.session.Load(); id != nil {
		h[headerSession] = []string{*id}
	}
	return h
}

// number returns the host's own number of a request, 0 for other ids.
func number(id json.RawMessage) uint64 {
	n, err := strconv.ParseUint(string(id), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
