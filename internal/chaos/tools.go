//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// tools are those of a server under the host.
type tools struct {
	name   string
	writes *os.File
}

// arguments of all tools. Text comes back in the answer, so that an answer that
// belongs to another call is noticed.
type arguments struct {
	Text   string `json:"text"`
	Millis int    `json:"millis,omitempty"` // slow: how long it takes
	Size   int    `json:"size,omitempty"`   // big, flood: bytes
	Count  int    `json:"count,omitempty"`  // notify: notifications
	Die    string `json:"die,omitempty"`    // count: "before" or "after" the write
}

const argumentsSchema = `{"type":"object","properties":{"text":{"type":"string"},"millis":{"type":"integer"},` +
	`"size":{"type":"integer"},"count":{"type":"integer"},"die":{"type":"string"}},"required":["text"]}`

func (t *tools) add(s *mcp.Server) {
	for _, tool := range []struct {
		name     string
		readOnly bool // the host may send the call twice
		run      func(context.Context, *mcp.CallToolRequest, arguments) string
	}{
		{"echo", true, t.echo},
		{"slow", true, t.slow},
		{"big", true, t.big},
		{"notify", true, t.notify},
		{"flood", true, t.flood},
		{"count", false, t.count},
		{"crash", false, t.crash},
	} {
		s.AddTool(&mcp.Tool{
			Name:        tool.name,
			Description: "Part of the chaos test.",
			InputSchema: json.RawMessage(argumentsSchema),
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: tool.readOnly},
		}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var a arguments
			if err := json.Unmarshal(r.Params.Arguments, &a); err != nil {
				return nil, err
			}
			answer := tool.run(ctx, r, a)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: answer}}}, nil
		})
	}
}

// answer is what a tool of a server says to a text.
func answer(server, text string) string { return server + " " + text }

func (t *tools) echo(_ context.Context, _ *mcp.CallToolRequest, a arguments) string {
	return answer(t.name, a.Text)
}

func (t *tools) slow(ctx context.Context, _ *mcp.CallToolRequest, a arguments) string {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(a.Millis) * time.Millisecond):
	}
	return answer(t.name, a.Text)
}

func (t *tools) big(_ context.Context, _ *mcp.CallToolRequest, a arguments) string {
	return answer(t.name, a.Text) + strings.Repeat(".", a.Size)
}

func (t *tools) notify(ctx context.Context, r *mcp.CallToolRequest, a arguments) string {
	for i := range a.Count {
		if r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: r.Params.GetProgressToken(), Progress: float64(i), Message: "one of many",
		}) != nil {
			break
		}
	}
	return answer(t.name, a.Text)
}

func (t *tools) flood(_ context.Context, _ *mcp.CallToolRequest, a arguments) string {
	floodStderr(a.Size)
	return answer(t.name, a.Text)
}

// count is a write. Its truth is a line in a file: one write(2) to a file that
// is open for appending is whole, and what is written outlives the process.
func (t *tools) count(_ context.Context, _ *mcp.CallToolRequest, a arguments) string {
	if a.Die == "before" {
		os.Exit(3)
	}
	if _, err := fmt.Fprintf(t.writes, "%s %s\n", t.name, a.Text); err != nil {
		fmt.Fprintln(os.Stderr, "recording a write:", err)
		os.Exit(4)
	}
	if a.Die == "after" {
		os.Exit(3)
	}
	return answer(t.name, a.Text)
}

func (t *tools) crash(context.Context, *mcp.CallToolRequest, arguments) string {
	os.Exit(3)
	return ""
}
