package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/hermes-host/hermes-host/shared/plugintest"
)

// What the re-executed test binary is.
const (
	envPlugin = "STDIO_TEST_PLUGIN"
	envServer = "STDIO_TEST_SERVER" // a crime of serve
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(envServer) != "":
		serve(os.Getenv(envServer))
		return
	case os.Getenv(envPlugin) != "":
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// serveSDK is a server of the MCP SDK with one tool.
func serveSDK() {
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "env", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Join(os.Environ(), "\n")}},
				StructuredContent: json.RawMessage(`{"n":9007199254740993}`)}, nil
		})
	_ = server.Run(context.Background(), &mcp.StdioTransport{}) // ends with its input
}

// serve is an MCP server with the given crimes.
func serve(crimes string) {
	peer := &plugintest.Peer{}
	deaf := false
	for crime := range strings.SplitSeq(crimes, " ") {
		name, arg, _ := strings.Cut(crime, "=")
		switch name {
		case "good":
		case "modern":
			peer.Era = plugintest.ModernOnly
		case "noInitialize":
			fmt.Fprintln(os.Stderr, "started")
			peer.Era, peer.SilentInitialize = plugintest.ModernOnly, true
		case "diesAtOnce":
			fmt.Fprintln(os.Stderr, "cannot open the database")
			os.Exit(7)
		case "stderrFlood":
			for range 5000 {
				fmt.Fprintln(os.Stderr, strings.Repeat("f", 200))
			}
		case "grandchild": // holds all the pipes
			c := exec.Command("sleep", arg)
			c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
			if err := c.Start(); err != nil {
				panic(err)
			}
			fmt.Fprintln(os.Stderr, "grandchild", c.Process.Pid)
		case "daemon": // it leaves the process group, the session and its parent
			pid, err := exec.Command("setsid", "sh", "-c", "sleep "+arg+" </dev/null >/dev/null 2>&1 & echo $!").Output()
			if err != nil {
				panic(err)
			}
			fmt.Fprintf(os.Stderr, "daemon %s", pid)
		case "stubborn": // ignores the end of input and SIGTERM
			signal.Ignore(syscall.SIGTERM)
			deaf = true
		case "sdk": // a server of the MCP SDK, version negotiation and all
			serveSDK()
			return
		case "mute": // reads and never answers
			for {
				if _, err := os.Stdin.Read(make([]byte, 4096)); err != nil {
					os.Exit(0)
				}
			}
		case "blind": // never reads
			select {}
		case "printsFirst":
			fmt.Println("Server running on stdio")
			fmt.Println()
			fmt.Print("{\"half\": \r\n")
		}
	}
	_ = peer.ServeLines(os.Stdin, os.Stdout) // the pipe broke: the same end
	if deaf {
		time.Sleep(time.Hour)
	}
}
