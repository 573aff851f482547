// Command hermes-transport-stdio is the transport plugin for MCP servers that
// are started as a process and speak over its stdin and stdout.
//
// It owns the process: it starts it, drains its stderr, reports its exit, and
// ends it with all its descendants.
package main

import (
	"github.com/hermes-host/hermes-host/internal/orphan"
	"github.com/hermes-host/hermes-host/internal/version"
	"github.com/hermes-host/hermes-host/shared"
)

func main() {
	// Without a home, where the system has none, the process group is all that
	// is known of a server's descendants.
	home, _ := orphan.Adopt()
	shared.Serve(transport(home))
}

func transport(home *orphan.Home) shared.Plugin[config] {
	p := starter{home: home}
	plugin := shared.Plugin[config]{
		Kind:     "stdio",
		Version:  version.String(),
		Discover: shared.DiscoverFallback,
		Validate: validate,
		Dial:     p.dial,
	}
	if home != nil {
		plugin.Features = []string{shared.FeatureNoOrphans}
	}
	return plugin
}
