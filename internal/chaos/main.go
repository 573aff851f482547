//go:build linux

// Chaos runs the real host among failures and proves that it survives them.
//
//	go run ./internal/chaos                    # half a minute
//	go run ./internal/chaos -for 1h -seed 7    # an hour, other faults
//
// It builds the host and its plugins, starts the host with twenty servers over
// stdio, http and sse and two more behind a plugin of a third party (this
// program's own), and lets MCP clients of both protocol eras call them. For a
// while it then kills, stops, freezes and floods servers and plugins, and cuts,
// stalls and refuses connections, as a seeded generator says. In the end it
// checks what the host promises: see docs/reliability.md. Whatever is not so is
// reported, and the exit code is 1.
//
// It needs Linux, and must be run in the repository or with -bin.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are what the command line says.
type options struct {
	length time.Duration // how long faults are made
	warm   time.Duration // how long clients call before, for figures to compare with
	seed   uint64
	gap    time.Duration // the mean time between two faults
	pace   time.Duration // the mean time between two calls of one worker
	bin    string        // holds the programs; "": build them
	keep   bool          // keep the logs although all is well
}

func main() {
	// The host starts this program again as its servers and as a plugin.
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "server":
			serve(os.Args[2:])
			return
		case "plugin":
			servePlugin()
			return
		}
	}
	var o options
	flag.DurationVar(&o.length, "for", 30*time.Second, "how long faults are made")
	flag.DurationVar(&o.warm, "warm", 5*time.Second, "how long clients call before the first fault")
	flag.Uint64Var(&o.seed, "seed", 1, "what the choice of faults and calls grows from")
	flag.DurationVar(&o.gap, "gap", 500*time.Millisecond, "mean time between two faults")
	flag.DurationVar(&o.pace, "pace", time.Second, "mean time between two calls of one of the 24 workers")
	flag.StringVar(&o.bin, "bin", "", "directory of the programs; what is not there is built into it (default a temporary one)")
	flag.BoolVar(&o.keep, "keep", false, "keep the logs even if all is well")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
	}
	if err != nil || !ok {
		stop()
		os.Exit(1)
	}
}
