package shared

import (
	"os"
	"slices"
	"strings"

	"github.com/hermes-host/hermes-host/internal/pluginrpc"
)

// Environ returns the environment for a process that a plugin starts: the
// plugin's own, which the host has kept small, without what speaks of the
// plugin and its host.
func Environ() []string {
	own := []string{pluginrpc.Handshake.MagicCookieKey, pluginrpc.EnvLifeline, pluginrpc.EnvLogLevel}
	return slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return strings.HasPrefix(name, "PLUGIN_") || slices.Contains(own, name)
	})
}
