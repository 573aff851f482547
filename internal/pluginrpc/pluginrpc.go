// Package pluginrpc is the go-plugin glue that the host's launcher and the
// plugin kit share: the handshake, the plugin sets, and limits that have to be
// the same on both sides of the connection.
//
// Nothing of go-plugin shows in the API of package shared, so that the plugin
// contract stays a gRPC service that any language can implement.
package pluginrpc

import (
	"github.com/hashicorp/go-plugin"
)

// Handshake marks a process as a plugin of hermes-host. The cookie is no
// secret: it keeps a person who runs a plugin by hand from waiting for nothing.
var Handshake = plugin.HandshakeConfig{
	MagicCookieKey:   "HERMES_PLUGIN",
	MagicCookieValue: "a45e518be257ca8301446bf47238d5c6e48d77bce5fff42284683cc954d5c6c5",
}

// Version is the major version of the contract, transport.proto's package v1.
// go-plugin negotiates it through VersionedPlugins.
const Version = 1

// Name is what the transport service is called within a plugin set.
const Name = "transport"

// FeatureNoOrphans is explained in package shared.
const FeatureNoOrphans = "no-orphans"

// The environment that the launcher sets for a plugin.
const (
	// EnvLifeline tells the plugin that a file is its lifeline: end of file
	// there means that the host is gone, and nothing is ever written to it.
	// Its only value is LifelineStdin. A plugin that is started without it
	// leaves its stdin alone.
	EnvLifeline   = "HERMES_LIFELINE"
	LifelineStdin = "stdin"

	// EnvLogLevel is the least level that the plugin logs at: trace, debug,
	// info, warn, error or off. The default is info.
	EnvLogLevel = "HERMES_LOG_LEVEL"
)
