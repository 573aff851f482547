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
	name    string
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

// measure measures two ways side by side: a block of calls on one, then the same
// on the other, again and again. What else the machine does meanwhile then
// slows both, and their ratio stays.
func measure(ctx context.Context, calls int, ways [2]way) (all [2]figures, err error) {
	echo := func(w way) error {
		_, err := w.call(ctx, "echo", map[string]any{"text": "hello"})
		return err
	}
	if _, err := times(calls/10, ways, echo); err != nil { // warm up
		return all, err
	}
	took, err := times(calls, ways, echo)
	if err != nil {
		return all, err
	}
	for i := range all {
		n := len(took[i])
		all[i].p50, all[i].p99 = took[i][n/2], took[i][n*99/100]
		all[i].perSecond = map[int]float64{}
	}
	for _, n := range inFlight {
		for i, w := range ways {
			if all[i].perSecond[n], err = throughput(calls, n, func() error { return echo(w) }); err != nil {
				return all, err
			}
		}
	}
	few := max(10, calls/50)
	big := func(size int) func(way) error {
		return func(w way) error {
			_, err := w.call(ctx, "big", map[string]any{"size": size})
			return err
		}
	}
	list := func(of func(way) *mcp.ClientSession) func(way) error {
		return func(w way) error {
			res, err := of(w).ListTools(ctx, nil)
			if err == nil && len(res.Tools) < 3 {
				err = fmt.Errorf("the list has only %d tools", len(res.Tools))
			}
			return err
		}
	}
	for _, m := range []struct {
		do   func(way) error
		into func(*figures) *time.Duration
	}{
		{big(64 << 10), func(f *figures) *time.Duration { return &f.result64K }},
		{big(1 << 20), func(f *figures) *time.Duration { return &f.result1M }},
		{list(func(w way) *mcp.ClientSession { return w.few }), func(f *figures) *time.Duration { return &f.list20 }},
		{list(func(w way) *mcp.ClientSession { return w.many }), func(f *figures) *time.Duration { return &f.list1K }},
	} {
		took, err := times(few, ways, m.do)
		if err != nil {
			return all, err
		}
		for i := range all {
			*m.into(&all[i]) = took[i][len(took[i])/2]
		}
	}
	return all, nil
}

// block is how many calls in sequence one way gets before the other has its
// turn: enough for its processes to have the caches to themselves.
const block = 50

// times runs f n times in sequence on each way, in blocks, and returns the
// sorted durations.
func times(n int, ways [2]way, f func(way) error) (took [2][]time.Duration, err error) {
	for done := 0; done < n; done += block {
		for i, w := range ways {
			for range min(block, n-done) {
				start := time.Now()
				if err := f(w); err != nil {
					return took, fmt.Errorf("%s: %w", w.name, err)
				}
				took[i] = append(took[i], time.Since(start))
			}
		}
	}
	for _, t := range took {
		slices.Sort(t)
	}
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
