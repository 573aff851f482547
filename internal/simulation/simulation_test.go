package simulation

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

var (
	seeds = flag.Uint64("sim.seeds", histories, "how many histories TestSimulation plays")
	first = flag.Uint64("sim.first", 1, "the seed of the first")
	show  = flag.Bool("sim.print", false, "print histories that go well, too")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stuck is how long one history may take by the real clock. It takes some
// milliseconds, but the machine may be busy.
const stuck = 2 * time.Minute

// TestSimulation plays histories on all processors and stops at the first that
// goes wrong.
func TestSimulation(t *testing.T) {
	var begun, done atomic.Uint64
	var failed atomic.Bool
	t.Cleanup(func() { // when all workers have finished
		if n := done.Load(); n < *seeds && !failed.Load() {
			t.Errorf("only %d of %d histories were played", n, *seeds)
		}
	})
	t.Cleanup(progress(&done, *seeds))
	for w := range runtime.GOMAXPROCS(0) {
		t.Run(fmt.Sprintf("worker %d", w), func(t *testing.T) {
			t.Parallel()
			for n := begun.Add(1); n <= *seeds && !failed.Load(); n = begun.Add(1) {
				h := newHistory(*first + n - 1)
				if faults := simulate(t, h); len(faults) > 0 {
					failed.Store(true)
					t.Error(h.report(faults))
				} else if *show {
					t.Log(h.report(nil))
				}
				done.Add(1)
			}
		})
	}
}

// simulate plays a history in a bubble of its own and returns what went wrong.
func simulate(t *testing.T, h *history) (faults []string) {
	watchdog := time.AfterFunc(stuck, func() {
		fmt.Fprintln(os.Stderr, h.report([]string{fmt.Sprintf("the history is still going on after %s of real time", stuck)}))
		panic("a history is stuck")
	})
	defer watchdog.Stop()
	defer func() {
		// Goroutines that wait for nothing are a panic of the bubble.
		if p := recover(); p != nil {
			faults = append(h.found(), fmt.Sprint(p))
		}
	}()
	synctest.Test(t, func(*testing.T) { h.play() })
	return h.found()
}

// progress tells people who play many histories how far they are, until the
// function that it returns is called.
func progress(done *atomic.Uint64, all uint64) (stop func()) {
	if all <= histories {
		return func() {}
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	start := time.Now()
	go func() {
		defer close(ended)
		ticker := time.NewTicker(10 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
			}
			n, took := done.Load(), time.Since(start)
			left := time.Duration(float64(took) / float64(max(1, n)) * float64(all-n))
			fmt.Fprintf(os.Stderr, "%d of %d histories, %.0f/s, %s left\n",
				n, all, float64(n)/took.Seconds(), left.Round(time.Second))
		}
	}()
	return func() { close(quit); <-ended }
}
