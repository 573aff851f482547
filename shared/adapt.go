package shared

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// Adapt makes a [Conn] of a connection of the MCP SDK. Payloads pass through
// as they are; the SDK still decodes the envelope, so integers in a server's
// own request ids beyond 2^53 are not preserved.
//
// It suits transports whose connection stands on its own. The SDK's streamable
// HTTP client connection does not: it needs calls that only the SDK's own
// client makes.
func Adapt(c mcp.Connection) Conn { return &adapted{c} }

type adapted struct{ conn mcp.Connection }

// Read returns the next message.
func (a *adapted) Read(ctx context.Context) (Incoming, error) {
	m, err := a.conn.Read(ctx)
	if err != nil {
		return Incoming{}, err
	}
	var in Incoming
	switch m := m.(type) {
	case *sdkrpc.Request:
		in.Method, in.Params = m.Method, m.Params
		if m.ID.IsValid() {
			in.ID, err = json.Marshal(m.ID.Raw())
		}
	case *sdkrpc.Response:
		in.Result = m.Result
		if m.ID.IsValid() {
			in.ID, err = json.Marshal(m.ID.Raw())
		}
		if m.Error != nil {
			in.Error = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: m.Error.Error()}
			if wire, ok := errors.AsType[*sdkrpc.Error](m.Error); ok {
				in.Error = &jsonrpc.Error{Code: wire.Code, Message: wire.Message, Data: wire.Data}
			}
		}
	default:
		err = fmt.Errorf("the SDK's connection returned a %T", m)
	}
	return in, err
}

// Write sends one message.
func (a *adapted) Write(ctx context.Context, m *jsonrpc.Message) error {
	id, err := sdkID(m.ID)
	if err != nil {
		return err
	}
	if !m.IsResponse() {
		return a.conn.Write(ctx, &sdkrpc.Request{ID: id, Method: m.Method, Params: m.Params})
	}
	r := &sdkrpc.Response{ID: id, Result: m.Result}
	switch {
	case m.Error != nil:
		r.Error = &sdkrpc.Error{Code: m.Error.Code, Message: m.Error.Message, Data: m.Error.Data}
	case r.Result == nil:
		r.Result = json.RawMessage("{}")
	}
	return a.conn.Write(ctx, r)
}

// Close closes the connection. The SDK's Close knows no context; a slow one is
// left to itself when ctx ends.
func (a *adapted) Close(ctx context.Context) error {
	closed := make(chan error, 1)
	go func() { closed <- a.conn.Close() }()
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("closing the connection: %w", context.Cause(ctx))
	}
}

func sdkID(raw json.RawMessage) (sdkrpc.ID, error) {
	if raw == nil {
		return sdkrpc.ID{}, nil
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return sdkrpc.ID{}, fmt.Errorf("reading a request id: %w", err)
	}
	id, err := sdkrpc.MakeID(v)
	if err != nil {
		return sdkrpc.ID{}, fmt.Errorf("reading a request id: %w", err)
	}
	return id, nil
}
