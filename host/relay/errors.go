package relay

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// codeUnavailable is the code of our own errors about a server that cannot be
// asked: the first of those that JSON-RPC leaves to implementations.
const codeUnavailable = -32000

func failed(err *jsonrpc.Error) session.Reply { return session.Reply{Error: err} }

// noResource says that a URI leads to no server: -32602 from protocol
// 2026-07-28 on (SEP-2164), -32002 before.
func noResource(c Client, uri string) *jsonrpc.Error {
	err := jsonrpc.Errorf(-32002, "Resource not found")
	if c.ProtocolVersion() >= catalog.Stateless {
		err.Code = jsonrpc.CodeInvalidParams
	}
	err.Data = json.RawMessage(`{"uri":` + string(rawjson.Quote(uri)) + `}`)
	return err
}

func number(n uint64) json.RawMessage { return strconv.AppendUint(nil, n, 10) }

// A BusyError is a [Server]'s: it has no room for the client's request, of which
// nothing was sent.
type BusyError struct{ Message string }

// Error returns the message.
func (e *BusyError) Error() string { return e.Message }

// metaError is where a tool's result says that the error is the host's.
const metaError = "io.github.hermes-host/error"

// unanswered makes the reply to a request that got no answer from the server.
//
// For tools/call it is a result with isError and the error as text: clients
// show that to the model, which can act on it ("try again in 3s"), whereas a
// JSON-RPC error often ends the turn. Everything else gets a JSON-RPC error.
// Both carry the facts for programs: in _meta, and in data.
func (r *Relay) unanswered(ctx context.Context, c Call, server string, err error) session.Reply {
	if ctx.Err() != nil {
		// The gateway has no use for it, so it need not be good.
		return failed(jsonrpc.Errorf(codeUnavailable, "%s: the request was cancelled", c.Method))
	}
	return r.hostError(c, r.cfg.Redact(server, err.Error()), factsOf(server, err))
}

// hostError makes a reply of the host's own.
func (r *Relay) hostError(c Call, message string, f facts) session.Reply {
	text, err := json.Marshal(f)
	if err != nil { // strings and numbers always encode
		panic(err)
	}
	if c.Method != "tools/call" {
		e := jsonrpc.Errorf(codeUnavailable, "%s", message)
		e.Data = text
		return failed(e)
	}
	return session.Reply{Result: slices.Concat([]byte(`{"content":[{"type":"text","text":`), rawjson.Quote(message),
		[]byte(`}],"isError":true,"_meta":{"`+metaError+`":`), text, []byte(`}}`))}
}

// facts are what programs are told about an error of the host's own.
type facts struct {
	Server       string `json:"server"`
	Reason       string `json:"reason"`
	State        string `json:"state,omitempty"`
	RetryAfterMs int64  `json:"retryAfterMs,omitempty"`
	Sent         bool   `json:"sent"` // the server may have acted on the request
}

// factsOf describes one of the supervisor's errors.
func factsOf(server string, err error) facts {
	f := facts{Server: server, Reason: "failed", Sent: true}
	if e, ok := errors.AsType[*supervisor.ReconnectingError](err); ok {
		f.Reason, f.State, f.Sent = "reconnecting", e.State.String(), false
		f.RetryAfterMs = e.RetryIn.Milliseconds()
	} else if e, ok := errors.AsType[*supervisor.OpenError](err); ok {
		f.Reason, f.Sent = "breaker open", false
		f.RetryAfterMs = e.RetryIn.Milliseconds()
	} else if e, ok := errors.AsType[*supervisor.UnavailableError](err); ok {
		f.Reason, f.State, f.Sent = "unavailable", e.State.String(), false
	} else if _, ok := errors.AsType[*BusyError](err); ok {
		f.Reason, f.Sent = "busy", false
	} else if _, ok := errors.AsType[*supervisor.AuthNeededError](err); ok {
		f.Reason, f.Sent = "authorization needed", false
	} else if _, ok := errors.AsType[*supervisor.OutcomeUnknownError](err); ok {
		f.Reason = "outcome unknown"
	} else if _, ok := errors.AsType[*supervisor.TimeoutError](err); ok {
		f.Reason = "timeout"
	} else if e, ok := errors.AsType[*supervisor.RefusedError](err); ok {
		f.Reason, f.Sent = "message refused", e.Cause == nil || !e.Cause.Undelivered
	}
	return f
}
