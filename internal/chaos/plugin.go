//go:build linux

package main

import (
	"context"
	"net"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hermes-host/hermes-host/shared"
)

// lineConfig is the transport block of the plugin below.
type lineConfig struct {
	Address string `hcl:"address" doc:"Where the server listens: host:port."`
}

// servePlugin is a transport plugin as a third party would write it: MCP over a
// TCP connection, a message per line.
func servePlugin() {
	shared.Serve(shared.Plugin[lineConfig]{
		Kind:         "line",
		Version:      "1.0.0",
		MultiSession: true,
		Transport: func(ctx context.Context, _ shared.Session, c lineConfig) (mcp.Transport, error) {
			var d net.Dialer
			conn, err := d.DialContext(ctx, "tcp", c.Address)
			if err != nil {
				return nil, err
			}
			return &mcp.IOTransport{Reader: conn, Writer: conn}, nil
		},
	})
}
