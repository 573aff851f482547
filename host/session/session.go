// Package session is the vocabulary of one MCP session as the host sees it:
// what it can be asked, what it reports, how it ends.
//
// launcher implements it over a plugin's stream, supervisor keeps one alive,
// catalog and relay use it. The package holds no logic beyond classification
// and imports nothing else of the host.
package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// A Transport opens sessions with one server.
type Transport interface {
	// Connect returns an initialised session, or an *End that says why there
	// is none; other errors count as an End of class Gone. It is bounded
	// by ctx alone. It may be called again after any outcome, never
	// concurrently.
	Connect(ctx context.Context, h Handler) (Session, error)
}

// A Session is an initialised MCP session. All methods may be called
// concurrently, and after the session's end.
type Session interface {
	// Info returns what the server said at initialisation.
	Info() Info

	// Call sends a request and waits for its answer. The error is a *Failure
	// if no answer came, or the cause of ctx if that ended first; the server
	// is then told that the request is cancelled.
	Call(ctx context.Context, req Request) (Reply, error)

	// Notify sends a notification. It does not wait for delivery.
	Notify(method string, params json.RawMessage) error

	// Answer answers a ServerRequest. One answer counts per id.
	Answer(id json.RawMessage, reply Reply) error

	// Healthy asks whether plugin and session still respond, by real I/O
	// that the server sees. Nil says yes. Silence to one kind of request is
	// confirmed by another: healthy servers exist that ignore ping.
	Healthy(ctx context.Context) error

	// Done is closed when the session has ended, and End then says why.
	// Before that End returns nil.
	Done() <-chan struct{}
	End() *End

	// Close ends the session and returns when everything that belonged to it
	// is gone or ctx has ended, in which case the rest is killed. It may be
	// called several times.
	Close(ctx context.Context)
}

// A Handler hears what a server sends on its own. The session's reader calls
// it, one call at a time and in the order of arrival, so that what came before
// an answer is handled before the answer is returned from Call. It must not
// block and must not call back into the session synchronously. No call comes
// after Done is closed.
type Handler interface {
	Notification(Notification)
	Request(ServerRequest)
	Log(LogLine)
}

// Info is what a server said at initialisation.
type Info struct {
	ProtocolVersion string          // the MCP version agreed on, such as "2025-11-25"
	Result          json.RawMessage // the result of initialize or server/discover, as sent
	ServerInfo      json.RawMessage // MCP Implementation; nil if none came
	Capabilities    json.RawMessage // MCP ServerCapabilities; nil if none came
	Instructions    string
	Process         int // the id of the server's process, where the plugin has started one; else 0
	Plugin          int // the id of the plugin's process
}

// A Request is a request to a server.
type Request struct {
	Method  string
	Params  json.RawMessage   // an object, or nil
	Headers map[string]string // header fields for transports that speak HTTP

	// Started, if not nil, is called with the id that Notification.Related
	// and ServerRequest.Related will carry, before anything is sent.
	Started func(id uint64)
}

// A Reply is a server's answer, either of the two.
type Reply struct {
	Result json.RawMessage
	Error  *jsonrpc.Error
}

// A Notification is an MCP notification from the server.
type Notification struct {
	Method  string
	Params  json.RawMessage // nil if absent
	Related uint64          // the request on whose own stream it came; 0 if unknown
}

// A ServerRequest is an MCP request from the server to the client side.
type ServerRequest struct {
	ID      json.RawMessage // as the server sent it
	Method  string
	Params  json.RawMessage // nil if absent
	Related uint64          // the request on whose own stream it came; 0 if unknown
}

// A LogLine belongs to the session but is no MCP message.
type LogLine struct {
	Level  string // trace, debug, info, warn, error
	Text   string
	Stderr bool // the server's own output
}

// Class says what kind of end a session came to.
type Class int

const (
	Gone        Class = iota // the connection, the server's process or the plugin is gone, or never came up
	Lost                     // the server answers but no longer knows the session
	Auth                     // the server wants an authorization that only a person can give
	ConfigFault              // the configuration cannot work
	Protocol                 // the peer does not speak MCP, or no version that we do
	Closed                   // we asked for it
)

var classNames = [...]string{"transport", "session lost", "authorization", "configuration", "protocol", "closed"}

// String returns the class in words.
func (c Class) String() string { return classNames[c] }

// An End says why a session ended or never began.
type End struct {
	Class     Class
	Message   string // for people; never empty
	Retryable bool   // trying again without a person's help may work
	Path      []any  // for ConfigFault: the way to the attribute at fault; strings and ints
}

// Error returns the message.
func (e *End) Error() string { return e.Message }

// AsEnd returns the End in err, or wraps err as a retryable one of class
// Gone.
func AsEnd(err error) *End {
	if end, ok := errors.AsType[*End](err); ok {
		return end
	}
	return &End{Class: Gone, Message: err.Error(), Retryable: true}
}

// Reason says what kind of failure kept an answer from coming.
type Reason int

const (
	Connection  Reason = iota // dial, write, read, end of stream, death of the plugin
	HTTPStatus                // an HTTP status without a JSON-RPC body
	SessionLost               // the server no longer knows the session
	NeedsAuth                 // 401 or 403
	Oversize                  // a message over the limit; the session lives
	Invalid                   // not JSON-RPC; the session lives
)

// A Failure says that a request got no answer.
type Failure struct {
	Reason  Reason
	Message string // for people; never empty
	// Undelivered is true only if the server cannot have acted on the request.
	Undelivered bool
}

// Error returns the message.
func (f *Failure) Error() string { return f.Message }

// Failuref returns a Failure of reason Connection.
func Failuref(undelivered bool, format string, args ...any) *Failure {
	return &Failure{Message: fmt.Sprintf(format, args...), Undelivered: undelivered}
}
