// Package demo is the small MCP server that `hermes-host demo-server` runs.
//
// It needs no network and no files, so that the default configuration works
// anywhere, and it has a tool that crashes it, so that the host's promise can
// be tried: call crash, then call anything else.
package demo

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hermes-host/hermes-host/internal/version"
)

const instructions = `A demonstration server. Its tools need no network: echo, time, add, uuid and random_text answer at once, ` +
	`slow takes a while and reports progress, crash ends the server's process so that its recovery can be watched.`

// Run serves one client on standard input and output until that client closes
// its side or ctx ends. The error is nil in the first case.
func Run(ctx context.Context) error {
	return New().Run(ctx, &mcp.StdioTransport{})
}

// New returns the server, to be run over any transport.
func New() *mcp.Server {
	s := mcp.NewServer(
		&mcp.Implementation{Name: "hermes-demo", Title: "hermes-host demo", Version: version.String()},
		&mcp.ServerOptions{
			Instructions:      instructions,
			Capabilities:      &mcp.ServerCapabilities{}, // no logging; the rest is inferred
			CompletionHandler: complete,
		},
	)
	addTools(s)
	addContent(s, time.Now())
	return s
}

// schema is a JSON Schema written out. The literals in this package save the
// reflection over argument types at every start.
func schema(s string) json.RawMessage { return json.RawMessage(s) }
