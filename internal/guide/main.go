// hermes-transport-tcp is a transport plugin for MCP servers that listen on a TCP
// port and speak a JSON-RPC message per line.
package main

import (
	"context"
	"net"

	"github.com/hermes-host/hermes-host/shared"
)

type config struct {
	Address string `hcl:"address" doc:"Where the server listens, as host:port."`
}

func main() {
	shared.Serve(shared.Plugin[config]{
		Kind:         "tcp",
		Version:      "1.0.0",
		MultiSession: true,                              // one process for all servers of the kind
		Features:     []string{shared.FeatureNoOrphans}, // it starts no processes
		Validate:     validate,
		Dial:         dial,
	})
}

func validate(c config) []shared.Diagnostic {
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		return []shared.Diagnostic{{
			Summary: "Invalid address",
			Detail:  "The address must be host:port, such as 127.0.0.1:9000.",
			Path:    shared.Path(shared.Attr("address")),
		}}
	}
	return nil
}

func dial(ctx context.Context, s shared.Session, c config) (shared.Conn, error) {
	s.Logger.Debug("connecting", "address", c.Address)
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.Address)
	if err != nil {
		return nil, err // worth retrying: the server may be about to start
	}
	return shared.NewLineConn(conn, conn, shared.LineOptions{
		MaxMessageBytes: s.MaxMessageBytes,
		Stray:           func(line string) { s.Logger.Debug("a line that is no message", "line", line) },
	}), nil
}
