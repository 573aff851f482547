// Bench measures what hermes-host costs, in one run and over the same
// upstream: calls straight to a server against calls through the host.
//
//	go run ./internal/bench            # everything, some two minutes
//	go run ./internal/bench -short     # fewer calls, for a quick look
//	go run ./internal/bench -cycles 1000 -flapping 500   # only what lasts: see endurance.go
//
// It builds the host and its plugins, starts a small MCP server over stdio and
// over streamable HTTP, and drives both ways with the MCP SDK's client. Load
// generator, host and server share the machine's cores, so ratios count and
// absolute figures don't. Direct and relayed measurements alternate, and each
// figure is the median of the rounds.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "upstream" {
		serveUpstream(os.Args[2:])
		return
	}
	var o options
	flag.IntVar(&o.rounds, "rounds", 3, "rounds; each figure is their median")
	flag.IntVar(&o.calls, "calls", 2000, "calls per measurement")
	flag.IntVar(&o.kills, "kills", 20, "kills per recovery measurement")
	flag.StringVar(&o.only, "upstream", "", "measure only this upstream: stdio or http")
	flag.IntVar(&o.cycles, "cycles", 0, "kill one server so many times and look at the host's memory, instead of all else")
	flag.IntVar(&o.flapping, "flapping", 0, "let so many servers flap and call a healthy one, instead of all else")
	short := flag.Bool("short", false, "one round, fewer calls and kills")
	flag.Parse()
	if *short {
		o.rounds, o.calls, o.kills = 1, 500, 5
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}
