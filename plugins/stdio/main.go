// Command hermes-transport-stdio is the transport plugin for MCP servers that
// are started as a process and speak over its stdin and stdout.
//
// It owns the process: it starts it, drains its stderr, reports its exit, and
// ends it with all its descendants.
package main

import (
	"github.com/hermes-host/hermes-host/internal/version"
	"github.com/hermes-host/hermes-host/shared"
)

func main() { shared.Serve(transport()) }

func transport() shared.Plugin[config] {
	var p starter
	return shared.Plugin[config]{
		Kind:     "stdio",
		Version:  version.String(),
		Discover: shared.DiscoverFallback,
		Validate: validate,
		Dial:     p.dial,
	}
}
