package gateway

import (
	"context"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hermes-host/hermes-host/internal/rawjson"
)

// The MCP SDK's client is the one that most clients in Go are; both eras and
// both transports must work with it, whatever we think of our own tests.

var sdkVersions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

// exercise runs a client through everything that passes the gateway.
func exercise(t *testing.T, f *fake, transport mcp.Transport, version string) {
	t.Helper()
	modern := version == "2026-07-28"
	progress := make(chan float64, 10)
	changed := make(chan struct{}, 10)
	client := mcp.NewClient(&mcp.Implementation{Name: "sdk", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params.Progress },
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "decline"}, nil
		},
	})
	s, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	if r := s.InitializeResult(); r.ProtocolVersion != version || r.Instructions != "be kind" || r.ServerInfo == nil || r.ServerInfo.Name != "fake" {
		t.Fatalf("initialized as %+v", r)
	}
	tools, err := s.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 1 {
		t.Fatalf("%+v, %v", tools, err)
	}
	text := func(tool string) string {
		t.Helper()
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool})
		if err != nil {
			t.Fatal(err)
		}
		return r.Content[0].(*mcp.TextContent).Text
	}
	if got := text("progress"); got != "done" {
		t.Fatalf("got %q", got)
	}
	for want := 1.0; want <= 3; want++ {
		if got := <-progress; got != want {
			t.Fatalf("progress %v, want %v", got, want)
		}
	}
	if !modern {
		if got := text("ask"); got != "decline" {
			t.Fatalf("got %q", got)
		}
		if err := s.Ping(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(text("big")); got != 1<<20 {
		t.Fatalf("%d bytes", got)
	}

	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "wait"})
		failed <- err
	}()
	<-f.entered
	cancel()
	if err := <-failed; err == nil {
		t.Fatal("a cancelled call succeeded")
	}
	<-f.ended // the cancellation has reached the endpoint

	for _, c := range f.clients() {
		c.Notify("notifications/tools/list_changed", nil)
	}
	<-changed
	if err := s.Close(); err != nil {
		t.Fatalf("closing: %v", err)
	}
}

func TestSDKOverHTTP(t *testing.T) {
	for _, version := range sdkVersions {
		t.Run(version, func(t *testing.T) {
			f := newFront(t, nil)
			exercise(t, f.fake, &mcp.StreamableClientTransport{Endpoint: f.url, HTTPClient: &http.Client{Transport: http.DefaultTransport}}, version)
			if n := f.g.Sessions(); n != 0 {
				t.Fatalf("%d sessions after the client's end", n)
			}
		})
	}
}

// pipes returns both ends of a connection made of two operating system pipes,
// which is what stdio is.
func pipes(t *testing.T) (theirs mcp.Transport, in, out *os.File) {
	t.Helper()
	in, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, f := range []io.Closer{in, w, r, out} {
			_ = f.Close()
		}
	})
	return &mcp.IOTransport{Reader: r, Writer: w}, in, out
}

func TestSDKOverStdio(t *testing.T) {
	for _, version := range sdkVersions {
		t.Run(version, func(t *testing.T) {
			f := newFront(t, nil)
			theirs, in, out := pipes(t)
			served := make(chan error, 1)
			go func() { served <- f.g.ServeStdio(t.Context(), in, out, f.fake) }()
			exercise(t, f.fake, theirs, version)
			if err := <-served; err != nil {
				t.Fatalf("ServeStdio = %v", err)
			}
		})
	}
}

// TestSDKSeesNoLoss checks that an integer that JavaScript can't hold passes.
func TestSDKSeesNoLoss(t *testing.T) {
	f := newFront(t, nil)
	res := f.post(modernMessage("1", "tools/call", `"name":"echo","arguments":{"n":9007199254740993},`+testMeta), modernHeaders("tools/call", "echo")...)
	if got := rawjson.Get([]byte(res.body), "result", "structuredContent", "n"); string(got) != "9007199254740993" {
		t.Fatalf("got %s", got)
	}
}
