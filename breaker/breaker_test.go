package breaker

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A step does one thing to a breaker and says what must hold afterwards.
type step struct {
	do    string
	want  State
	fails int
	wait  time.Duration // expected RetryAfter
}

// TestTransitions walks the machine. "allow x" takes a ticket and keeps it
// under the name x, "probe x" also demands that it is the probe, "refuse"
// demands a refusal, "success x" and so on settle it.
func TestTransitions(t *testing.T) {
	const cool = DefaultCooldown
	open := []step{
		{"allow a", Closed, 0, 0}, {"failure a", Closed, 1, 0},
		{"allow b", Closed, 1, 0}, {"failure b", Closed, 2, 0},
		{"allow c", Closed, 2, 0}, {"failure c", Open, 3, cool},
	}
	for name, steps := range map[string][]step{
		"a success between failures starts the count anew": {
			{"allow a", Closed, 0, 0}, {"allow b", Closed, 0, 0}, {"allow c", Closed, 0, 0},
			{"failure a", Closed, 1, 0}, {"failure b", Closed, 2, 0}, {"success c", Closed, 0, 0},
		},
		"neutral says nothing": {
			{"allow a", Closed, 0, 0}, {"failure a", Closed, 1, 0},
			{"allow b", Closed, 1, 0}, {"neutral b", Closed, 1, 0},
		},
		"a ticket counts once": {
			{"allow a", Closed, 0, 0}, {"failure a", Closed, 1, 0}, {"failure a", Closed, 1, 0}, {"success a", Closed, 1, 0},
		},
		"refused until the cooldown is over, then one probe closes it": slices.Concat(open, []step{
			{"refuse", Open, 3, cool}, {"sleep 59s", Open, 3, time.Second}, {"refuse", Open, 3, time.Second},
			{"sleep 1s", Open, 3, 0}, {"probe p", HalfOpen, 3, 0}, {"refuse", HalfOpen, 3, 0},
			{"success p", Closed, 0, 0}, {"allow d", Closed, 0, 0},
		}),
		"a failed probe re-arms the cooldown": slices.Concat(open, []step{
			{"sleep 60s", Open, 3, 0}, {"probe p", HalfOpen, 3, 0}, {"failure p", Open, 4, cool},
			{"sleep 59s", Open, 4, time.Second}, {"refuse", Open, 4, time.Second},
			{"sleep 1s", Open, 4, 0}, {"probe q", HalfOpen, 4, 0},
		}),
		"a neutral probe gives the slot to the next call": slices.Concat(open, []step{
			{"sleep 60s", Open, 3, 0}, {"probe p", HalfOpen, 3, 0}, {"neutral p", HalfOpen, 3, 0},
			{"probe q", HalfOpen, 3, 0}, {"success p", HalfOpen, 3, 0}, {"refuse", HalfOpen, 3, 0}, {"success q", Closed, 0, 0},
		}),
		"an abandoned probe loses its slot and its voice": slices.Concat(open, []step{
			{"sleep 60s", Open, 3, 0}, {"probe p", HalfOpen, 3, 0}, {"sleep 299s", HalfOpen, 3, 0}, {"refuse", HalfOpen, 3, 0},
			{"sleep 1s", HalfOpen, 3, 0}, {"probe q", HalfOpen, 3, 0}, {"failure p", HalfOpen, 3, 0}, {"success p", HalfOpen, 3, 0},
			{"success q", Closed, 0, 0},
		}),
		"a late probe still counts while nobody has its slot": slices.Concat(open, []step{
			{"sleep 60s", Open, 3, 0}, {"probe p", HalfOpen, 3, 0}, {"sleep 600s", HalfOpen, 3, 0}, {"success p", Closed, 0, 0},
		}),
		"failures of calls from before it opened do not prolong the cooldown": {
			{"allow a", Closed, 0, 0}, {"allow b", Closed, 0, 0}, {"allow c", Closed, 0, 0}, {"allow d", Closed, 0, 0}, {"allow e", Closed, 0, 0},
			{"failure a", Closed, 1, 0}, {"failure b", Closed, 2, 0}, {"failure c", Open, 3, cool},
			{"sleep 30s", Open, 3, 30 * time.Second}, {"failure d", Open, 3, 30 * time.Second}, {"success e", Open, 3, 30 * time.Second},
		},
		"old tickets say nothing about a half-open breaker": {
			{"allow a", Closed, 0, 0}, {"allow b", Closed, 0, 0}, {"trip", Open, 0, cool}, {"sleep 60s", Open, 0, 0},
			{"probe p", HalfOpen, 0, 0}, {"success a", HalfOpen, 0, 0}, {"failure b", HalfOpen, 0, 0},
		},
		"reset closes and voids what is under way": slices.Concat(open, []step{
			{"sleep 60s", Open, 3, 0}, {"probe p", HalfOpen, 3, 0}, {"reset", Closed, 0, 0}, {"failure p", Closed, 0, 0},
			{"allow d", Closed, 0, 0}, {"failure d", Closed, 1, 0},
		}),
		"reset of a closed breaker voids failures of the old connection": {
			{"allow a", Closed, 0, 0}, {"allow b", Closed, 0, 0}, {"allow c", Closed, 0, 0}, {"reset", Closed, 0, 0},
			{"failure a", Closed, 0, 0}, {"failure b", Closed, 0, 0}, {"failure c", Closed, 0, 0},
		},
		"trip opens at once and re-arms": {
			{"allow a", Closed, 0, 0}, {"trip", Open, 0, cool}, {"success a", Open, 0, cool}, {"refuse", Open, 0, cool},
			{"sleep 50s", Open, 0, 10 * time.Second}, {"trip", Open, 0, cool}, {"sleep 60s", Open, 0, 0},
			{"probe p", HalfOpen, 0, 0}, {"trip", Open, 0, cool}, {"success p", Open, 0, cool},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { walk(t, steps) })
		})
	}
}

func walk(t *testing.T, steps []step) {
	b := New(Config{})
	tickets := map[string]Ticket{}
	for i, s := range steps {
		verb, name := s.do, ""
		for j := range s.do {
			if s.do[j] == ' ' {
				verb, name = s.do[:j], s.do[j+1:]
			}
		}
		switch verb {
		case "allow", "probe":
			k, err := b.Allow()
			if err != nil || k.Probe() != (verb == "probe") {
				t.Fatalf("step %d, %s: probe %v, error %v", i, s.do, k.Probe(), err)
			}
			tickets[name] = k
		case "refuse":
			_, err := b.Allow()
			open, ok := errors.AsType[*OpenError](err)
			if !ok || open.RetryAfter != s.wait || open.Probing != (s.want == HalfOpen) || open.Error() == "" {
				t.Fatalf("step %d, %s: %#v", i, s.do, err)
			}
		case "success":
			tickets[name].Settle(Success)
		case "failure":
			tickets[name].Settle(Failure)
		case "neutral":
			tickets[name].Settle(Neutral)
		case "reset":
			b.Reset()
		case "trip":
			b.Trip()
		case "sleep":
			d, err := time.ParseDuration(name)
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(d)
		default:
			t.Fatalf("step %d: unknown verb %q", i, verb)
		}
		if got, want := b.Snapshot(), (Snapshot{s.want, s.fails, s.wait}); got != want {
			t.Fatalf("step %d, %s: %+v, want %+v", i, s.do, got, want)
		}
	}
}

// TestOneProbeOfMany: of many concurrent calls past the cooldown exactly one
// passes.
func TestOneProbeOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{})
		b.Trip()
		<-time.After(DefaultCooldown)
		passed := make(chan Ticket, 64)
		var wg sync.WaitGroup
		for range cap(passed) {
			wg.Go(func() {
				if k, err := b.Allow(); err == nil {
					passed <- k
				}
			})
		}
		wg.Wait()
		if len(passed) != 1 || !(<-passed).Probe() {
			t.Fatalf("%d calls passed, want the probe alone", len(passed))
		}
	})
}

// TestChangesInOrder: changes are reported in order, each once, outside the
// lock, also when the callback itself makes changes and when many goroutines
// make them.
func TestChangesInOrder(t *testing.T) {
	var got []change
	var b *Breaker
	b = New(Config{OnChange: func(from, to State) {
		got = append(got, change{from, to}) // the race detector objects if two reports overlap
		b.State()                           // deadlocks if the lock is held
		if to == Open {
			b.Reset()
		}
	}})
	b.Trip()
	if want := []change{{Closed, Open}, {Open, Closed}}; !slices.Equal(got, want) {
		t.Fatalf("reported %v, want %v", got, want)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				b.Trip()
			}
		})
	}
	wg.Wait()
	b.Reset() // takes the lock after the last report
	for i := range got[1:] {
		if got[i].to != got[i+1].from {
			t.Fatalf("report %d is %v, before it came %v", i+1, got[i+1], got[i])
		}
	}
}

// TestZeroTicket: a ticket that was never granted can be settled.
func TestZeroTicket(t *testing.T) {
	var k Ticket
	k.Settle(Failure)
	if k.Probe() {
		t.Fatal("the zero ticket is a probe")
	}
}

func TestNames(t *testing.T) {
	if got := HalfOpen.String() + " " + Failure.String(); got != "half-open failure" {
		t.Fatal(got)
	}
}
