// Command hermes-transport-sse is the transport plugin for MCP servers that
// speak the older HTTP+SSE transport of protocol 2024-11-05. hermes-host starts
// it.
package main

import (
	"github.com/hermes-host/hermes-host/internal/version"
	"github.com/hermes-host/hermes-host/shared"
)

func main() { shared.Serve(plugin()) }

func plugin() shared.Plugin[config] {
	return shared.Plugin[config]{
		Kind:         "sse",
		Version:      version.String(),
		Features:     []string{shared.FeatureNoOrphans}, // it starts no processes
		MultiSession: true,
		Discover:     shared.DiscoverNever, // 2026-07-28 has no binding to this transport
		Validate:     validate,
		Dial:         dial,
	}
}
