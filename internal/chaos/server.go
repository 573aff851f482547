//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// This file is a server under the host: an MCP server of the SDK over one
// transport, with tools that misbehave and signals that make it misbehave.
//
//	SIGUSR1  it answers nothing for a while (freezer)
//	SIGUSR2  it floods its stderr and its clients (flood)

// serve runs a server until its transport ends, or for ever.
func serve(args []string) {
	fs := flag.NewFlagSet("server", flag.ExitOnError)
	name := fs.String("name", "", "the server's name in the configuration")
	transport := fs.String("transport", "stdio", "stdio, http, sse or line")
	socket := fs.String("socket", "", "unix socket to listen at, but for stdio")
	writes := fs.String("writes", "", "file that gets a line for each write")
	sessions := fs.Bool("sessions", false, "speak no protocol without sessions")
	_ = fs.Parse(args) // it exits on errors

	file, err := os.OpenFile(*writes, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	s := newServer(*name, file, *sessions)
	if *transport == "stdio" {
		if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			log.Fatal(err)
		}
		return
	}
	_ = os.Remove(*socket) // of the process before
	l, err := net.Listen("unix", *socket)
	if err != nil {
		log.Fatal(err)
	}
	get := func(*http.Request) *mcp.Server { return s }
	switch *transport {
	case "http":
		err = http.Serve(l, mcp.NewStreamableHTTPHandler(get, nil))
	case "sse":
		err = http.Serve(l, mcp.NewSSEHandler(get, nil))
	case "line":
		err = serveLines(l, s)
	default:
		err = fmt.Errorf("no transport %q", *transport)
	}
	log.Fatal(err)
}

// serveLines serves one session per connection, a message per line.
func serveLines(l net.Listener, s *mcp.Server) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			_ = s.Run(context.Background(), &mcp.IOTransport{Reader: c, Writer: c}) // ends with the connection
		}()
	}
}

// newServer returns a server with all tools. Writes are appended to file.
func newServer(name string, file *os.File, sessions bool) *mcp.Server {
	var o mcp.ServerOptions
	if sessions {
		o.SupportedProtocolVersions = []string{legacy}
	}
	s := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, &o)
	f := newFreezer()
	s.AddReceivingMiddleware(f.middleware)
	t := &tools{name: name, writes: file}
	t.add(s)
	go misbehave(s, f)
	return s
}
