//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"time"
)

// run does everything. It reports whether all promises were kept; the error is
// about what kept it from finding out.
func run(ctx context.Context, o options) (ok bool, err error) {
	w, err := newWorld(ctx, o)
	if w == nil {
		return false, err
	}
	defer func() {
		w.close()
		if err == nil && ok && !o.keep {
			os.RemoveAll(w.dir)
		} else {
			fmt.Println("logs are in", w.dir)
		}
	}()
	if err != nil {
		return false, err
	}
	w.rec.start = time.Now()
	if err := w.start(ctx); err != nil {
		return false, err
	}
	fmt.Printf("%10s  %d servers are ready; seed %d\n", w.rec.since(), len(w.servers), o.seed)

	if err := w.quiet(ctx); err != nil {
		return false, err
	}
	// What is resident settles only once the heap has been as large as it gets
	// among faults, so a first part of them comes before its level is taken.
	first := min(w.length/6, mostFirst)
	base := w.before
	base.own = math.Inf(1)
	if w.worn, err = w.storm(ctx, "first", first, base); err != nil {
		return false, err
	}
	base.own = w.worn.own
	after, err := w.storm(ctx, "then", w.length-first, base)
	if err != nil {
		return false, err
	}
	if err := w.end(after); err != nil {
		return false, err
	}
	return !w.rec.failed(), nil
}

// mostFirst bounds the first part of the faults.
const mostFirst = 5 * time.Minute

// quiet lets clients call without faults, and measures the host once they have
// gone.
func (w *world) quiet(ctx context.Context) error {
	l := w.load()
	w.drive(ctx, l, w.seed, "warm", w.warm, func(context.Context) {})
	l.everywhere(ctx)
	for _, c := range l.clients {
		c.close()
	}
	w.doors.cut()
	var err error
	// Measured twice: the first time takes along what has ended just now.
	for range 2 {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
		if w.before, err = measure(ctx, w.host); err != nil {
			return err
		}
	}
	fmt.Printf("%10s  before the faults: %v\n", w.rec.since(), w.before)
	return nil
}

// drive runs the load, and what is done meanwhile, for a time.
func (w *world) drive(ctx context.Context, l *load, seed uint64, phase string, length time.Duration, meanwhile func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	l.start(ctx, seed, phase)
	meanwhile(ctx)
	<-ctx.Done()
	l.working.Wait()
}

// storm makes faults under load, checks that everything comes back when they
// are over, and that the host holds no more than base once the clients have
// gone. It returns what the host holds.
func (w *world) storm(ctx context.Context, phase string, length time.Duration, base level) (level, error) {
	in := &injector{host: w.host, servers: w.servers, clients: w.doors, rec: w.rec}
	in.spare()
	if want := 2; len(in.spared) != want {
		return level{}, fmt.Errorf("found %d plugin processes of steady servers, want %d", len(in.spared), want)
	}
	l := w.load()
	l.storm.Store(true)
	w.storms++
	w.drive(ctx, l, w.seed+w.storms, phase, length, func(ctx context.Context) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.progress(ctx)
		}()
		in.run(ctx, rand.New(rand.NewPCG(w.seed, w.storms<<32)), w.gap)
		<-done
	})
	if ctx.Err() != nil {
		return level{}, ctx.Err()
	}
	return w.calm(ctx, l, base)
}

// progress prints a line a minute, more often in short runs.
func (w *world) progress(ctx context.Context) {
	every := time.NewTicker(min(time.Minute, max(w.length/4, time.Second)))
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			fmt.Printf("%10s  PROGRESS %s\n", w.rec.since(), w.line())
		}
	}
}

// calm checks, now that no more faults are made, that everything comes back,
// and what the host holds then.
func (w *world) calm(ctx context.Context, l *load, base level) (level, error) {
	start := time.Now()
	err := func() error {
		ctx, cancel := context.WithTimeoutCause(ctx, readyBound, errLate)
		defer cancel()
		return w.host.ready(ctx, w.servers)
	}()
	switch {
	case errors.Is(err, errLate):
		w.rec.violation("%v after the last fault %v", readyBound, err)
	case err != nil:
		return level{}, err
	}
	ready := time.Since(start)
	w.ready = max(w.ready, ready)
	fmt.Printf("%10s  all servers are ready, %v after the last fault and call\n", w.rec.since(), ready.Round(time.Millisecond))
	l.everywhere(ctx)
	callable := time.Since(start) - ready
	fmt.Printf("%10s  every client has called every server, in %v\n", w.rec.since(), callable.Round(time.Millisecond))
	for _, c := range l.clients {
		c.close()
	}
	w.doors.cut()
	now, above, err := settle(ctx, w.host, base)
	if err != nil {
		return level{}, err
	}
	for _, what := range above {
		w.rec.violation("%v after the last client: %s", levelBound, what)
	}
	fmt.Printf("%10s  after the faults: %v\n", w.rec.since(), now)
	if lost := w.orphans(); len(lost) > 0 {
		w.rec.violation("processes that nobody looks after: %s", describe(lost))
	}
	return now, nil
}

var errLate = errors.New("not all are ready")

// end stops the host, compares what was written with what was told, and
// reports.
func (w *world) end(after level) error {
	w.stopHost()
	b, err := w.ledger.compare(w.writes())
	if err != nil {
		return err
	}
	for _, what := range b.wrong {
		w.rec.violation("%s", what)
	}
	w.report(b, after)
	return nil
}
