package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// figures are what one way to the server reached in one round.
type figures struct {
	p50, p99       time.Duration
	perSecond      map[int]float64 // by calls in flight
	result64K      time.Duration
	result1M       time.Duration
	list20, list1K time.Duration
}

var inFlight = []int{1, 16, 64}

// way is one way to call the measured server.
type way struct {
	session *mcp.ClientSession // for calls
	prefix  string             // of tool names
	few     *mcp.ClientSession // lists the server with 20 tools alone
	many    *mcp.ClientSession // lists the server with 1,000 tools alone
}

func (w way) call(ctx context.Context, tool string, args map[string]any) (*mcp.CallToolResult, error) {
	res, err := w.session.CallTool(ctx, &mcp.CallToolParams{Name: w.prefix + tool, Arguments: args})
	if err == nil && res.IsError {
		err = errors.New(resultText(res))
	}
	return res, err
}

func resultText(res *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range res.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

func (w way) measure(ctx context.Context, calls int) (figures, error) {
	f := figures{perSecond: map[int]float64{}}
	echo := func() error {
		_, err := w.call(ctx, "echo", map[string]any{"text": "hello"})
		return err
	}
	if _, err := w.times(calls/10, echo); err != nil { // warm up
		return f, err
	}
	took, err := w.times(calls, echo)
	if err != nil {
		return f, err
	}
	f.p50, f.p99 = took[len(took)/2], took[len(took)*99/100]
	for _, n := range inFlight {
		if f.perSecond[n], err = throughput(calls, n, echo); err != nil {
			return f, err
		}
	}
	for size, into := range map[int]*time.Duration{64 << 10: &f.result64K, 1 << 20: &f.result1M} {
		took, err := w.times(max(10, calls/50), func() error {
			_, err := w.call(ctx, "big", map[string]any{"size": size})
			return err
		})
		if err != nil {
			return f, err
		}
		*into = took[len(took)/2]
	}
	for session, into := range map[*mcp.ClientSession]*time.Duration{w.few: &f.list20, w.many: &f.list1K} {
		took, err := w.times(max(10, calls/50), func() error {
			res, err := session.ListTools(ctx, nil)
			if err == nil && len(res.Tools) < 3 {
				err = fmt.Errorf("the list has only %d tools", len(res.Tools))
			}
			return err
		})
		if err != nil {
			return f, err
		}
		*into = took[len(took)/2]
	}
	return f, nil
}

// times runs f n times in sequence and returns the sorted durations.
func (w way) times(n int, f func() error) ([]time.Duration, error) {
	took := make([]time.Duration, n)
	for i := range took {
		start := time.Now()
		if err := f(); err != nil {
			return nil, err
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return took, nil
}

// throughput runs f n times, k at once, and returns the runs per second.
func throughput(n, k int, f func() error) (float64, error) {
	var left atomic.Int64
	left.Store(int64(n))
	errs := make([]error, k)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range k {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := f(); err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(n) / time.Since(start).Seconds(), errors.Join(errs...)
}

// recovery kills a process n times and returns how long each next call took to
// succeed, sorted. A call that fails is made again at once.
func (w way) recovery(ctx context.Context, n int, kill func(ctx context.Context) error) ([]time.Duration, error) {
	took := make([]time.Duration, n)
	for i := range took {
		if err := kill(ctx); err != nil {
			return nil, err
		}
		start := time.Now()
		for {
			_, err := w.call(ctx, "echo", map[string]any{"text": "back?"})
			if err == nil {
				break
			}
			if ctx.Err() != nil || time.Since(start) > time.Minute {
				return nil, fmt.Errorf("no recovery: %w", err)
			}
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return took, nil
}
