//go:build linux

package main

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

func (l level) String() string {
	n := 0
	for _, count := range l.processes {
		n += count
	}
	return fmt.Sprintf("%d processes, %d goroutines, %d descriptors, %d threads, %.1f MiB live in pages of %.1f, %.1f MiB resident, %.1f of its own",
		n, l.goroutines, l.descriptors, l.threads, l.heap, l.pages, l.resident, l.own)
}

// line is the state of a run in one line.
func (w *world) line() string {
	back, parks := w.host.recoveries()
	pid := w.host.cmd.Process.Pid
	resident, open, threads := float64(status(pid, "VmRSS"))/1024, descriptors(pid), status(pid, "Threads")
	r := w.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d faults, %d calls (%d answered, %d not sent, %d unknown, %d wrong), %d recoveries, %d parks, steady p50 %v p99 %v; host: %.0f MiB, %d descriptors, %d threads",
		sum(r.faults), total(r.calls), r.calls[answered], r.calls[unsent], r.calls[unknown], r.calls[wrong], len(back), parks,
		round(quantile(r.stormy, 0.5)), round(quantile(r.stormy, 0.99)), resident, open, threads)
}

// report prints the tables at the end of a run.
func (w *world) report(b balance, after level) {
	back, parks := w.host.recoveries()
	r := w.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	row := func(what string, value any) { fmt.Printf("  %-34s %v\n", what, value) }

	fmt.Printf("\nFaults in %v, seed %d\n", w.length, w.seed)
	for _, kind := range slices.Sorted(maps.Keys(r.faults)) {
		row(kind, r.faults[kind])
	}
	row("all", sum(r.faults))
	row("whose target was not there", sum(r.missed))

	fmt.Println("\nCalls")
	for o := range outcomes {
		row(o.String(), r.calls[o])
	}
	row("all", total(r.calls))
	row("longest", fmt.Sprintf("%v (bound %v)", round(r.longest), answerBound))
	for _, reason := range slices.Sorted(maps.Keys(r.reasons)) {
		row("error: "+reason, r.reasons[reason])
	}
	row("sessions that clients made anew", r.reconnects)

	fmt.Println("\nWrites")
	row("told that it was done", b.ok)
	row("told that it was not sent", b.unsent)
	row("told unknown, cut or cancelled", b.unknown)
	row("of these done", b.unknownDone)
	row("done in all", b.writes)
	row("not as told", len(b.wrong))

	fmt.Println("\nServers without faults (p50, p99)")
	row("before", fmt.Sprintf("%v, %v of %d", round(quantile(r.quiet, 0.5)), round(quantile(r.quiet, 0.99)), len(r.quiet)))
	row("among faults", fmt.Sprintf("%v, %v of %d", round(quantile(r.stormy, 0.5)), round(quantile(r.stormy, 0.99)), len(r.stormy)))

	fmt.Println("\nRecoveries")
	row("sessions lost and made anew", len(back))
	row("p50, p99, longest", fmt.Sprintf("%v, %v, %v", round(quantile(back, 0.5)), round(quantile(back, 0.99)), round(quantile(back, 1))))
	row("parks", parks)
	row("all ready after the last fault", fmt.Sprintf("%v (bound %v)", round(w.ready), readyBound))

	fmt.Println("\nHost without clients")
	row("before", w.before)
	row("after the first faults", w.worn)
	row("after all", after)

	if n := len(r.violations) + r.more; n > 0 {
		fmt.Printf("\nFAILED: %d violations\n", n)
		for _, text := range r.violations {
			fmt.Println("  " + text)
		}
		fmt.Printf("\nThe host's log ends with:\n%s\n", w.host.last())
		return
	}
	fmt.Println("\nAll promises were kept.")
}

func sum(of map[string]int) (n int) {
	for _, v := range of {
		n += v
	}
	return n
}

func total(calls [outcomes]int) (n int) {
	for _, v := range calls {
		n += v
	}
	return n
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
