// Mutate breaks the supervisor and the breaker on purpose, in one place at a
// time, and shows which tests notice.
//
//	go run ./internal/mutate             # all of them, some minutes
//	go run ./internal/mutate -only trip  # those whose description has the word
//
// Run it from the module's root. Nothing is written there: go test sees the
// broken file through an overlay. The table that it prints is Markdown. It ends
// with status 1 if a breakage goes unnoticed, and refuses to begin if the code
// that one replaces is no longer there, or the tests fail as it is.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"
)

func main() {
	only := flag.String("only", "", "play only the mutations whose description contains this")
	seeds := flag.Int("seeds", 1000, "how many histories the simulation plays against each")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *only, *seeds); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, seeds int) error {
	start := time.Now()
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var chosen []mutation
	for _, m := range mutations {
		if strings.Contains(m.what, only) {
			if _, err := m.apply(); err != nil {
				return err
			}
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no mutation's description contains %q", only)
	}
	if by, err := suite(ctx, "", seeds); err != nil {
		return err
	} else if by.any() {
		return fmt.Errorf("the tests fail without a mutation: %s %s", by.tests, by.simulation)
	}
	fmt.Println("| Breakage | Noticed by | Simulation |\n| --- | --- | --- |")
	survived := 0
	for _, m := range chosen {
		overlay, err := m.overlay(dir)
		if err != nil {
			return err
		}
		by, err := suite(ctx, overlay, seeds)
		if err != nil {
			return fmt.Errorf("%s: %w", m.what, err)
		}
		if !by.any() {
			survived++
		}
		fmt.Printf("| %s | %s | %s |\n", m.what, by.tests, by.simulation)
	}
	fmt.Printf("\n%d breakages, %d unnoticed, %s\n", len(chosen), survived, time.Since(start).Round(time.Second))
	if survived > 0 {
		return fmt.Errorf("%d breakages went unnoticed", survived)
	}
	return nil
}
