//go:build linux

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A level is what the host holds when nobody uses it.
type level struct {
	processes   map[string]int // below the host, by what they are
	goroutines  int
	descriptors int
	threads     int
	heap        float64 // MiB of objects that live after a collection
	pages       float64 // MiB of pages with such objects
	resident    float64 // MiB
	own         float64 // MiB of these that are no pages of the program's file
}

// measure has the host settle and looks at it.
func measure(ctx context.Context, h *hostProcess) (level, error) {
	p, err := h.probe(ctx)
	if err != nil {
		return level{}, err
	}
	pid := h.cmd.Process.Pid
	l := level{
		processes:   map[string]int{},
		goroutines:  p.Goroutines,
		heap:        float64(p.Heap) / (1 << 20),
		pages:       float64(p.Pages) / (1 << 20),
		descriptors: descriptors(pid),
		threads:     status(pid, "Threads"),
		resident:    float64(status(pid, "VmRSS")) / 1024,
		own:         float64(status(pid, "RssAnon")) / 1024,
	}
	for _, p := range below(processes(), pid) {
		l.processes[p.what()]++
	}
	return l, nil
}

// What levels may be above those before the faults. Processes must be the same.
// Not judged are threads, since Go's runtime never ends those that it has once
// needed, and pages of the program's file, which come in as code is used.
const (
	moreGoroutines  = 4
	moreDescriptors = 4
	moreHeap        = 4.0 // MiB
	moreOwn         = 8.0 // MiB; pages stay partly used where the heap was larger
)

// above says what is not back at the level before.
func (l level) above(before level) []string {
	var all []string
	kinds := slices.AppendSeq(slices.Collect(maps.Keys(before.processes)), maps.Keys(l.processes))
	slices.Sort(kinds)
	for _, what := range slices.Compact(kinds) {
		if got, want := l.processes[what], before.processes[what]; got != want {
			all = append(all, fmt.Sprintf("%d processes %s instead of %d", got, what, want))
		}
	}
	if l.goroutines > before.goroutines+moreGoroutines {
		all = append(all, fmt.Sprintf("%d goroutines instead of %d", l.goroutines, before.goroutines))
	}
	if l.descriptors > before.descriptors+moreDescriptors {
		all = append(all, fmt.Sprintf("%d descriptors instead of %d", l.descriptors, before.descriptors))
	}
	if l.heap > before.heap+moreHeap {
		all = append(all, fmt.Sprintf("%.1f MiB of live heap instead of %.1f", l.heap, before.heap))
	}
	if l.own > before.own+moreOwn {
		all = append(all, fmt.Sprintf("%.1f MiB of resident memory of its own instead of %.1f", l.own, before.own))
	}
	return all
}

// levelBound is for levels to be back: sessions that clients left behind end
// after idle, the launcher keeps a plugin without sessions for 10 s, and HTTP
// connections are kept for a while.
const levelBound = idle + 30*time.Second

// settle measures until nothing is above before, or levelBound has passed.
func settle(ctx context.Context, h *hostProcess, before level) (now level, above []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, levelBound)
	defer cancel()
	for {
		if now, err = measure(ctx, h); err != nil {
			return now, nil, err
		}
		above = now.above(before)
		if len(above) == 0 {
			return now, nil, nil
		}
		select {
		case <-time.After(2 * time.Second): // /proc tells nobody when it changes
		case <-ctx.Done():
			return now, above, nil
		}
	}
}
