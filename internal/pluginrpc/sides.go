package pluginrpc

import (
	"context"
	"errors"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// Client is what the host's side dispenses under [Name]: a *Client.
type Client struct {
	transportpb.TransportClient

	// Context ends when go-plugin has seen the plugin's process exit.
	Context context.Context
}

// HostPlugins returns the plugin sets for the host's ClientConfig. Each launch
// needs its own, since go-plugin writes to the map.
func HostPlugins() map[int]plugin.PluginSet {
	return map[int]plugin.PluginSet{Version: {Name: &transport{}}}
}

// ServePlugins returns the plugin sets for a plugin's ServeConfig.
func ServePlugins(srv transportpb.TransportServer) map[int]plugin.PluginSet {
	return map[int]plugin.PluginSet{Version: {Name: &transport{server: srv}}}
}

// transport makes the two ends of the service for go-plugin.
type transport struct {
	plugin.NetRPCUnsupportedPlugin
	server transportpb.TransportServer // nil in the host
}

var _ plugin.GRPCPlugin = (*transport)(nil)

// GRPCServer registers the plugin's side.
func (t *transport) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	if t.server == nil {
		return errors.New("this plugin set is the host's and cannot be served")
	}
	transportpb.RegisterTransportServer(s, t.server)
	return nil
}

// GRPCClient makes the host's side, a *Client.
func (t *transport) GRPCClient(exited context.Context, _ *plugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return &Client{TransportClient: transportpb.NewTransportClient(c), Context: exited}, nil
}
