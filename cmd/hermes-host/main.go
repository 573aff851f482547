// Command hermes-host is a long-lived host for MCP servers: it keeps every
// server that its configuration names alive or revivable, and serves all they
// offer to MCP clients from one place.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	// The first signal asks for an orderly end. Before that begins, signals get
	// their default effect back, so that a second one ends everything at once:
	// the plugins see their lifeline break and take their servers with them.
	context.AfterFunc(signals, func() {
		stop()
		cancel()
	})
	os.Exit(execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
