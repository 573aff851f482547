//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// A load is what clients do: some workers each that call tools of all servers
// one after the other, as a seeded generator says.
type load struct {
	clients []*client
	servers []*server
	steady  []*server
	ledger  *ledger
	rec     *record
	pace    time.Duration
	storm   atomic.Bool // faults are being made
	working sync.WaitGroup
}

// workers is how many calls a client may have in flight.
const workers = 3

// start starts all workers. They end their last call and return when ctx ends.
func (l *load) start(ctx context.Context, seed uint64, phase string) {
	for i, c := range l.clients {
		for j := range workers {
			random := rand.New(rand.NewPCG(seed, uint64(i*workers+j)))
			l.working.Go(func() { l.work(ctx, c, random, fmt.Sprintf("%s-%s-%d", phase, c.name, j)) })
		}
		if c.proxy == nil && !c.alone {
			for _, s := range l.steady {
				l.working.Go(func() { l.pulse(ctx, c, s, phase) })
			}
		}
	}
}

// pulse calls a steady server again and again, for figures.
func (l *load) pulse(ctx context.Context, c *client, s *server, phase string) {
	beat := time.NewTicker(500 * time.Millisecond)
	defer beat.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			l.call(context.Background(), c, s, "echo", arguments{Text: fmt.Sprintf("%s-%s-%s-%d", phase, c.name, s.name, n)})
		}
	}
}

func (l *load) work(ctx context.Context, c *client, random *rand.Rand, name string) {
	for n := 0; ; n++ {
		wait := min(time.Duration(random.ExpFloat64()*float64(l.pace)), 5*l.pace)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		s := l.servers[random.IntN(len(l.servers))]
		if random.IntN(4) == 0 {
			s = l.steady[random.IntN(len(l.steady))]
		}
		l.one(c, s, random, fmt.Sprintf("%s-%d", name, n))
	}
}

// one makes a call. It goes on although the load ends meanwhile.
func (l *load) one(c *client, s *server, random *rand.Rand, key string) {
	a := arguments{Text: key}
	tool := "echo"
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch n := random.IntN(100); {
	case n < 45:
	case n < 75:
		tool = "count"
		if l.storm.Load() && !s.steady && random.IntN(10) == 0 {
			a.Die = [...]string{"before", "after"}[random.IntN(2)]
			l.rec.fault("crash in a write", s.name, a.Die+" it is done", true)
		}
	case n < 83:
		tool, a.Millis = "slow", random.IntN(1500)
		if random.IntN(3) == 0 {
			defer time.AfterFunc(time.Duration(random.IntN(1000))*time.Millisecond, cancel).Stop()
		}
	case n < 88:
		tool, a.Size = "big", 1<<20
	case n < 92:
		tool, a.Count = "notify", 200
	case n < 94:
		tool, a.Size = "flood", 1<<20
	case n < 96 && l.storm.Load() && !s.steady:
		tool = "crash"
		l.rec.fault("crash in a call", s.name, "", true)
	case n < 98:
		// A caller that gives up at any moment of a write.
		tool = "count"
		defer time.AfterFunc(time.Duration(random.ExpFloat64()*float64(5*time.Millisecond)), cancel).Stop()
	}
	l.call(ctx, c, s, tool, a)
}

// call makes a call, judges what came of it, and records that.
func (l *load) call(ctx context.Context, c *client, s *server, tool string, a arguments) {
	storm := l.storm.Load()
	start := time.Now()
	o, reason, detail := c.do(ctx, s, tool, a)
	took := time.Since(start)
	l.rec.call(o, reason, took)
	if tool == "count" {
		l.ledger.note(s.name, a.Text, o)
	}
	if tool == "echo" && s.steady && c.proxy == nil && o == answered {
		l.rec.steady(took, storm)
	}
	took = took.Round(time.Millisecond)
	switch {
	case o == wrong:
		l.rec.violation("%s calling %s of %s: %s after %v: %s", c.name, tool, s.name, reason, took, detail)
	case took > answerBound && o != cancelled:
		l.rec.violation("%s calling %s of %s: %s only after %v (bound %v)", c.name, tool, s.name, o, took, answerBound)
	case tool == "crash" && o == answered:
		l.rec.violation("%s calling crash of %s: answered", c.name, s.name)
	case s.steady && (o == unsent || o == unknown):
		l.rec.violation("%s calling %s of %s, which has no faults: %s", c.name, tool, s.name, detail)
	}
}

// everywhere has every client call every server until it is answered, within
// callableBound.
func (l *load) everywhere(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callableBound)
	defer cancel()
	var all sync.WaitGroup
	for _, c := range l.clients {
		all.Go(func() {
			for _, s := range l.servers {
				for try := 0; ; try++ {
					o, _, detail := c.do(ctx, s, "echo", arguments{Text: fmt.Sprintf("%s-last-%d", c.name, try)})
					if o == answered {
						break
					}
					select {
					case <-time.After(200 * time.Millisecond): // a client that tries again
						continue
					case <-ctx.Done():
					}
					l.rec.violation("%s could not call %s %v after the last fault: %s: %s", c.name, s.name, callableBound, o, detail)
					break
				}
			}
		})
	}
	all.Wait()
}
