package breaker

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A model is the breaker told another way: a log of who may still speak.
type model struct {
	state    State
	failures int
	opened   time.Time
	granted  time.Time
	valid    map[Ticket]bool // tickets whose outcome would count; false: the call of a closed breaker, true: the probe
}

func (m *model) enter(s State) {
	m.state, m.valid = s, map[Ticket]bool{}
	switch s {
	case Closed:
		m.failures = 0
	case Open:
		m.opened = time.Now()
	}
}

// TestModel compares the breaker with the model over random histories.
func TestModel(t *testing.T) {
	const threshold, cooldown, lease = 2, 10 * time.Second, 25 * time.Second
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			var reported State
			b := New(Config{Threshold: threshold, Cooldown: cooldown, Lease: lease, OnChange: func(from, to State) {
				if from != reported || from == to {
					t.Fatalf("reported %v to %v after %v", from, to, reported)
				}
				reported = to
			}})
			m := &model{}
			m.enter(Closed)
			var all []Ticket
			t.Repeat(map[string]func(*rapid.T){
				"allow": func(t *rapid.T) {
					k, err := b.Allow()
					var pass, probe bool
					switch m.state {
					case Closed:
						pass = true
					case Open:
						if probe = time.Since(m.opened) >= cooldown; probe {
							m.enter(HalfOpen)
						}
					case HalfOpen:
						probe = len(m.valid) == 0 || time.Since(m.granted) >= lease
					}
					if (err == nil) != (pass || probe) || k.Probe() != probe {
						t.Fatalf("Allow: probe %v, error %v; want pass %v, probe %v", k.Probe(), err, pass || probe, probe)
					}
					if probe {
						m.granted, m.valid = time.Now(), map[Ticket]bool{}
					}
					if err == nil {
						m.valid[k] = probe
						all = append(all, k)
					}
				},
				"settle": func(t *rapid.T) {
					if len(all) == 0 {
						t.Skip("no ticket")
					}
					k := rapid.SampledFrom(all).Draw(t, "ticket")
					o := rapid.SampledFrom([]Outcome{Neutral, Success, Failure}).Draw(t, "outcome")
					k.Settle(o)
					probe, counts := m.valid[k]
					delete(m.valid, k)
					switch {
					case !counts || o == Neutral:
					case o == Success && probe:
						m.enter(Closed)
					case o == Success:
						m.failures = 0
					default:
						m.failures++
						if probe || m.failures >= threshold {
							m.enter(Open)
						}
					}
				},
				"reset": func(*rapid.T) { b.Reset(); m.enter(Closed) },
				"trip":  func(*rapid.T) { b.Trip(); m.enter(Open) },
				"wait": func(t *rapid.T) {
					<-time.After(time.Duration(rapid.IntRange(1, 30).Draw(t, "seconds")) * time.Second)
				},
				"": func(t *rapid.T) {
					want := Snapshot{State: m.state, Failures: m.failures}
					if m.state == Open {
						want.RetryAfter = max(0, cooldown-time.Since(m.opened))
					}
					if got := b.Snapshot(); got != want {
						t.Fatalf("%+v, want %+v", got, want)
					}
					if reported != m.state {
						t.Fatalf("last report %v, state %v", reported, m.state)
					}
				},
			})
		})
	})
}
