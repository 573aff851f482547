//go:build linux

package main

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// frozen is how long a server that was told so answers nothing: longer than
// any limit in the configuration.
const frozen = 8 * time.Second

// misbehave obeys the signals of the chaos program, as long as the process
// lives.
func misbehave(s *mcp.Server, f *freezer) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	for sig := range signals {
		if sig == syscall.SIGUSR1 {
			f.freeze(frozen)
		} else {
			go flood(s)
		}
	}
}

// A freezer holds up all requests, while connections stay open.
type freezer struct {
	mu     sync.Mutex
	thawed chan struct{} // closed while it is not frozen
}

func newFreezer() *freezer {
	f := &freezer{thawed: make(chan struct{})}
	close(f.thawed)
	return f
}

// freeze does nothing if it is frozen already.
func (f *freezer) freeze(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.thawed:
		thawed := make(chan struct{})
		f.thawed = thawed
		time.AfterFunc(d, func() { close(thawed) })
	default:
	}
}

func (f *freezer) middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		f.mu.Lock()
		thawed := f.thawed
		f.mu.Unlock()
		select {
		case <-thawed:
			return next(ctx, method, r)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// flood writes to stderr, and sends to all sessions notifications that nobody
// asked for and changes of the list of tools.
func flood(s *mcp.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	floodStderr(4 << 20)
	for range 20 {
		s.AddTool(&mcp.Tool{Name: "extra", InputSchema: map[string]any{"type": "object"}},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{}, nil
			})
		s.RemoveTools("extra")
	}
	for ss := range s.Sessions() {
		for range 500 {
			if ss.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: "nobody's", Message: strings.Repeat("noise ", 20)}) != nil {
				break
			}
		}
	}
}

// floodStderr writes so many bytes, most of them in lines.
func floodStderr(size int) {
	line := strings.Repeat("flood ", 40) + "\n"
	for ; size > len(line); size -= len(line) {
		if _, err := os.Stderr.WriteString(line); err != nil {
			return
		}
	}
	_, _ = os.Stderr.WriteString("\x1b[0m\x00{\"@level\":3}\n") // nobody may be reading
}
