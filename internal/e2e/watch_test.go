package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// With this variable set to an era, the test program is a server on stdio of
// that era alone, with a resource to watch and a tool that changes it.
const watchEnv = "HERMES_TEST_WATCH"

const (
	older = "older" // than 2026-07-28
	newer = "newer"
)

const watchedURI = "watch://it"

func serveWatch() bool {
	era := os.Getenv(watchEnv)
	if era == "" {
		return false
	}
	_ = watchServer(era).Run(context.Background(), &mcp.StdioTransport{}) // ends with its input
	return true
}

func watchServer(era string) *mcp.Server {
	agree := func(context.Context, *mcp.SubscribeRequest) error { return nil }
	server := mcp.NewServer(&mcp.Implementation{Name: "watch", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   agree,
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	server.AddResource(&mcp.Resource{URI: watchedURI, Name: "it"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: watchedURI, Text: "x"}}}, nil
	})
	server.AddTool(&mcp.Tool{Name: "touch", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if err := server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: watchedURI}); err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
	})
	foreign := map[string]string{older: "server/discover", newer: "initialize"}[era]
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == foreign {
				return nil, fmt.Errorf("this server knows no %s", method)
			}
			return next(ctx, method, req)
		}
	})
	return server
}

// TestSubscriptions: clients of either era hear of the changes of a resource of
// a server of either era, over stdio and HTTP, in sessions of their own and
// shared ones.
func TestSubscriptions(t *testing.T) {
	t.Parallel()
	for _, server := range []string{older, newer} {
		for _, transport := range []string{"stdio", "http"} {
			for _, scope := range []string{"shared", "client"} {
				t.Run(server+" server over "+transport+", "+scope+" session", func(t *testing.T) {
					t.Parallel()
					block := fmt.Sprintf("command = %q\n    env = { %s = %q }", self(t), watchEnv, server)
					if transport == "http" {
						s := watchServer(server)
						web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
							&mcp.StreamableHTTPOptions{Stateless: server == newer}))
						t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
						block = fmt.Sprintf("url = %q", web.URL)
					}
					host := run(t, fmt.Sprintf("server \"watch\" {\n  session = %q\n  transport %q {\n    %s\n  }\n}\n", scope, transport, block), "watch")
					subscribeAll(t, host, watchedURI, "watch__touch")
				})
			}
		}
	}
}

// TestSubscriptionsOfPeers: so do those of npm's server-everything.
func TestSubscriptionsOfPeers(t *testing.T) {
	n := npmPeers(t)
	t.Parallel()
	host := run(t, fmt.Sprintf("server \"everything\" {\n  transport \"stdio\" {\n    command = %q\n    args = [%q]\n  }\n}\n",
		n.node, n.module("server-everything/dist/index.js")), "everything")
	subscribeAll(t, host, "demo://resource/dynamic/text/1", "everything__toggle-subscriber-updates")
}

// subscribeAll subscribes to a resource as a client of each era.
func subscribeAll(t *testing.T, host *runningHost, uri, touch string) {
	for client, version := range map[string]string{older: "2025-06-18", newer: "2026-07-28"} {
		t.Run(client+" client", func(t *testing.T) { subscribeAndHear(t, host, version, uri, touch) })
	}
}

func subscribeAndHear(t *testing.T, host *runningHost, version, uri, touch string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	heard := make(chan string, 16)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { heard <- r.Params.URI },
	}).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: host.url}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if got := session.InitializeResult().ProtocolVersion; got != version {
		t.Fatalf("the client speaks %s, want %s", got, version)
	}
	if err := session.Subscribe(ctx, &mcp.SubscribeParams{URI: uri}); err != nil {
		t.Fatalf("subscribing: %v", err)
	}
	// A subscription is in force a moment after it was granted, where the host
	// has to open a stream for it.
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting; {
		callText(t, session, touch, map[string]any{})
		select {
		case got := <-heard:
			if got != uri {
				t.Errorf("heard of %q", got)
			}
			waiting = false
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("heard of no change")
		}
	}
	if err := session.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: uri}); err != nil {
		t.Fatalf("unsubscribing: %v", err)
	}
}
