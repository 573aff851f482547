// Command hermes-transport-http is the transport plugin for MCP servers that
// speak streamable HTTP, in the versions with sessions (2025-03-26 to
// 2025-11-25) and without (2026-07-28). hermes-host starts it.
package main

import (
	"github.com/hermes-host/hermes-host/internal/version"
	"github.com/hermes-host/hermes-host/shared"
)

func main() { shared.Serve(plugin()) }

func plugin() shared.Plugin[config] {
	return shared.Plugin[config]{
		Kind:         "http",
		Version:      version.String(),
		Features:     []string{shared.FeatureNoOrphans}, // it starts no processes
		MultiSession: true,
		Discover:     shared.DiscoverFirst,
		Validate:     validate,
		Dial:         dial,
	}
}
