package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/hermes-host/hermes-host/host"
)

// reloadOnHangup reloads the configuration on SIGHUP until the function that
// it returns is called, which waits for a reload that is under way. The
// context that it returns ends also when SIGHUP means what it says: that the
// terminal in which the host runs has gone. Windows has no such signal.
func reloadOnHangup(ctx context.Context, h *host.Host) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	ours := hasTerminal() && !signal.Ignored(syscall.SIGHUP) // not under nohup
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	var handling sync.WaitGroup
	handling.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
			}
			if ours && !hasTerminal() {
				cancel()
				return
			}
			_, _ = h.Apply(ctx, "SIGHUP") // it logs
		}
	})
	return ctx, func() {
		signal.Stop(signals)
		cancel()
		handling.Wait()
	}
}

// hasTerminal reports whether the process has a controlling terminal.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	f.Close()
	return true
}
