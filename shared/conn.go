package shared

import (
	"context"
	"errors"
	"io"

	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// A Conn carries the JSON-RPC messages of one MCP session, payloads undecoded.
//
// The kit performs the MCP handshake over it, matches answers to requests and
// relays the rest. Plugins that already have an [mcp.Transport] of the MCP SDK
// need none: see [Plugin]. The optional interfaces below let a Conn tell more
// than Read and Write can say.
//
// [mcp.Transport]: https://pkg.go.dev/github.com/modelcontextprotocol/go-sdk/mcp#Transport
type Conn interface {
	// Read returns the next message. One goroutine calls it, in a loop, until
	// it fails; a failure is the end of the session. Close unblocks it. The
	// message may alias a buffer that the next Read reuses.
	Read(ctx context.Context) (Incoming, error)

	// Write sends one message. The kit writes one after the other, in the
	// order in which the host sent them, and to nobody while a Write takes its
	// time: a Write must not wait for an answer. It may be called concurrently
	// with Read and Close. An error that
	// is a [*WriteError] concerns this message alone; any other ends the
	// session. Write may return before the message has reached the peer, and
	// report a later failure of a request through Read (see [Incoming]). When
	// ctx ends the message is no longer wanted.
	Write(ctx context.Context, m *jsonrpc.Message) error

	// Close ends the connection in order, within ctx, and then by force. It
	// returns when nothing of it is left. It may be called several times.
	Close(ctx context.Context) error
}

// read reads from a Conn. The plain end of input, which says nothing to people,
// gets words.
func read(ctx context.Context, c Conn) (Incoming, error) {
	in, err := c.Read(ctx)
	if err == io.EOF { // not one that is wrapped in words of the plugin's own
		err = hungUp{}
	}
	return in, err
}

// hungUp is the end of input where a message should begin.
type hungUp struct{}

// Error says what it means.
func (hungUp) Error() string { return "the server closed the connection" }

// Unwrap returns io.EOF.
func (hungUp) Unwrap() error { return io.EOF }

// Incoming is what a Conn reads.
type Incoming struct {
	jsonrpc.Message

	// Related is the id of the host's request on whose own stream a request
	// or notification came; 0 where the transport does not tell.
	Related uint64

	// Failure, if not nil, takes the place of an answer that cannot come
	// although the session lives; only Message.ID is then set.
	Failure *WriteError
}

// A WriteError says that one message failed and the session goes on.
type WriteError struct {
	Reason    transportpb.TransportError_Reason
	Delivered transportpb.TransportError_Delivered
	Message   string // for people; never empty
}

// Error returns the message.
func (e *WriteError) Error() string { return e.Message }

// An EndError ends a session, or keeps one from beginning, for a reason better
// known than "the connection broke". Dial, Read and Write return it; any other
// error counts as a lost connection that is worth retrying.
type EndError struct {
	Class     transportpb.SessionEnd_Class
	Message   string // for people; never empty; no secrets
	Retryable bool
	Path      []*transportpb.PathStep // for CLASS_CONFIG: the attribute at fault, if it is one
}

// Error returns the message.
func (e *EndError) Error() string { return e.Message }

// An Initialized Conn is told when the handshake is complete, once, before any
// other traffic. HTTP transports begin to send the version header and open the
// server-to-client stream then.
type Initialized interface {
	Initialized(protocolVersion string)
}

// A Process is a Conn to a process that the plugin has started. Its id is shown
// to operators.
type Process interface {
	ProcessID() int
}

// A Discoverer is a Conn that says itself how its handshake begins, in place of
// [Plugin].Discover.
type Discoverer interface {
	Discover() Discover
}

// ErrRedial is what Read or Write returns during the handshake when the plugin
// has found out that the server must be dialled in another way, and has told
// [Session.Remember] so: the Conn is closed, and Dial called once more in the
// same attempt. A second one in an attempt is a lost connection.
var ErrRedial = errors.New("the server is to be dialled in another way")

type headersKey struct{}

// WithHeaders returns a context that carries the header fields of one request.
// The kit passes it to Write.
func WithHeaders(ctx context.Context, h map[string]string) context.Context {
	if len(h) == 0 {
		return ctx
	}
	return context.WithValue(ctx, headersKey{}, h)
}

// Headers returns the header fields that belong to the message of this Write,
// nil if there are none. Transports over HTTP add them to the request;
// others ignore them.
func Headers(ctx context.Context) map[string]string {
	h, _ := ctx.Value(headersKey{}).(map[string]string)
	return h
}
