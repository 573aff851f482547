package relay

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/hermes-host/hermes-host/host/session"
)

// A Client is one MCP client as the relay sees it: a session of the gateway,
// or the sender of a single stateless request (protocol 2026-07-28). The
// gateway implements it. All methods may be called from any goroutine and none
// blocks.
type Client interface {
	// ID is unique for the life of the host and unguessable.
	ID() string
	// ProtocolVersion is the MCP version agreed on with the client.
	ProtocolVersion() string
	// Info and Capabilities are what the client declared: MCP Implementation
	// and ClientCapabilities objects, nil if it declared none.
	Info() json.RawMessage
	Capabilities() json.RawMessage
	// Notify queues a notification that belongs to no request. It is dropped
	// when the client has no stream for such, or too many wait for it.
	Notify(method string, params json.RawMessage)
	// A Client that also has the method Request of [Stream] can be asked
	// what belongs to none of its requests.
}

// Tag is what log and status show of a client: enough of its id to tell clients
// apart, not enough to pass for one.
func Tag(c Client) string { return c.ID()[:min(len(c.ID()), 6)] }

// ErrNoRequests is wrapped by the error of [Stream.Request] when the client's
// protocol knows no requests from server to client (2026-07-28, SEP-2322):
// what the server wants to ask has to go into an input_required result.
var ErrNoRequests = errors.New("the client's protocol version has no requests from server to client")

// A Stream carries what belongs to one request of a client besides its answer.
// The gateway implements it.
type Stream interface {
	// Notify queues a notification, to be delivered before the answer. It
	// does not block.
	Notify(method string, params json.RawMessage)
	// Request sends the client a request and waits for its answer. It returns
	// an error if the client cannot be asked, is gone, or ctx has ended.
	Request(ctx context.Context, method string, params json.RawMessage) (session.Reply, error)
}

// A Call is one request of a client.
type Call struct {
	Client Client
	Stream Stream
	Method string
	Params json.RawMessage // an object, or nil
	// Headers are the Mcp-Param-* fields of the HTTP request, canonical
	// names (SEP-2243); nil over stdio.
	Headers map[string]string
}

// A Description is what an endpoint says of itself at initialize and
// server/discover.
type Description struct {
	ServerInfo   json.RawMessage // MCP Implementation
	Capabilities json.RawMessage // MCP ServerCapabilities
	Instructions string
}

// An Endpoint answers the requests of one address of the gateway: the
// aggregate of all servers, or one server alone. Relay's endpoints implement
// it; the gateway calls it, one goroutine per request.
type Endpoint interface {
	Describe() Description
	// Handle answers a request. When ctx ends, the request is cancelled
	// upstream and the reply no longer matters. Initialize, server/discover,
	// ping and subscriptions/listen are the gateway's own and never come here.
	Handle(ctx context.Context, call Call) session.Reply
	// Notification takes a client's notification, except initialized and
	// cancelled, which are the gateway's own.
	Notification(ctx context.Context, c Client, method string, params json.RawMessage)
	// Join and Leave bracket the life of a client that can be notified: a
	// session, or a subscriptions/listen stream.
	Join(c Client)
	Leave(c Client)
}
