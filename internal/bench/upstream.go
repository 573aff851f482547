package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serveUpstream is the MCP server that is measured, directly and through the
// host: some tools that answer at once, and one that answers with much text.
func serveUpstream(args []string) {
	fs := flag.NewFlagSet("upstream", flag.ExitOnError)
	addr := fs.String("http", "", "serve streamable HTTP at this address instead of stdio")
	tools := fs.Int("tools", 20, "number of tools")
	flaps := fs.Bool("flapping", false, "be many servers that flap, over HTTP")
	if err := fs.Parse(args); err != nil {
		log.Fatal(err)
	}
	if *flaps {
		serveFlapping(*addr)
	}
	server := newUpstream(*tools)
	if *addr == "" {
		if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			log.Fatal(err)
		}
		return
	}
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.Addr())
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{JSONResponse: true})
	log.Fatal(http.Serve(l, handler))
}

func newUpstream(tools int) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "upstream", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string","description":"what to say"},"size":{"type":"integer"}}}`)
	s.AddTool(&mcp.Tool{Name: "echo", Description: "Says what it was told.", InputSchema: schema},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text(string(r.Params.Arguments)), nil
		})
	s.AddTool(&mcp.Tool{Name: "big", Description: "Answers with size bytes of text.", InputSchema: schema},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var a struct{ Size int }
			if err := json.Unmarshal(r.Params.Arguments, &a); err != nil {
				return nil, err
			}
			return text(strings.Repeat("lorem ipsum dolor sit amet, ", a.Size/28+1)[:a.Size]), nil
		})
	s.AddTool(&mcp.Tool{Name: "pid", Description: "Tells the server's process id.", InputSchema: schema},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text(fmt.Sprint(os.Getpid())), nil
		})
	for i := 3; i < tools; i++ {
		s.AddTool(&mcp.Tool{
			Name:        fmt.Sprintf("tool_%d", i),
			Description: strings.Repeat("One of many tools that nobody calls. ", 5),
			InputSchema: schema,
		}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("ok"), nil })
	}
	return s
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}
