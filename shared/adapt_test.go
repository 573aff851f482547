package shared

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// sdkServer connects a server of the MCP SDK and returns the client's end.
func sdkServer(t *testing.T) mcp.Transport {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "precise", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{}, StructuredContent: json.RawMessage(`{"n":9007199254740993}`)}, nil
		})
	ours, theirs := mcp.NewInMemoryTransports()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Run(ctx, theirs) // ends with the connection or the context
	}()
	t.Cleanup(func() { cancel(); <-served })
	return ours
}

// A plugin with a transport of the SDK reaches a server of the SDK, by either
// handshake, and payloads pass unchanged.
func TestAdapt(t *testing.T) {
	for order, version := range map[Discover]string{DiscoverFirst: "2026-07-28", DiscoverFallback: "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			h := openSession(t, order, &transportpb.OpenSession{}, func() (Conn, error) {
				c, err := sdkServer(t).Connect(t.Context())
				if err != nil {
					return nil, err
				}
				return Adapt(c), nil
			})
			if f := h.next(); f.GetInit().GetProtocolVersion() != version {
				t.Fatalf("got %v", f)
			}
			h.host <- &transportpb.HostFrame{Frame: &transportpb.HostFrame_Request{Request: &transportpb.Request{
				Id: 1, Method: "tools/call", Params: []byte(`{"name":"precise","arguments":{}}`)}}}
			var got struct {
				StructuredContent json.RawMessage
			}
			r := h.next().GetResponse()
			if err := json.Unmarshal(r.GetResult(), &got); err != nil || string(got.StructuredContent) != `{"n":9007199254740993}` {
				t.Errorf("got %v, %v", r, err)
			}
			h.call(2, "no/such")
			if e := h.next().GetResponse().GetRpcError(); e.GetCode() == 0 || e.GetMessage() == "" {
				t.Errorf("got %v", e)
			}
			h.close()
			if end := h.next().GetEnd(); end.GetClass() != transportpb.SessionEnd_CLASS_CLOSED {
				t.Errorf("got %v", end)
			}
			<-h.over
		})
	}
}
