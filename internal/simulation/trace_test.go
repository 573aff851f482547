package simulation

import (
	"fmt"
	"strings"
	"time"
)

// A line is one thing that happened. It is put into words only if somebody
// wants to read them.
type line struct {
	at     time.Duration // since the start
	state  string        // before it happened; "" for what follows from a step
	format string
	args   []any
}

// step notes what the history does.
func (h *history) step(format string, args ...any) {
	state := h.server().sup.Status().State.String()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steps++
	h.trace = append(h.trace, line{time.Since(h.start), state, format, args})
}

// event notes what happens.
func (h *history) event(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trace = append(h.trace, line{time.Since(h.start), "", format, args})
}

// fault notes what must not happen.
func (h *history) fault(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	h.event("!!! %s", text)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = append(h.faults, text)
}

// found returns the faults so far.
func (h *history) found() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.faults
}

// report tells the history: steps with the state that they met, what followed
// indented below. Of equal lines of one instant, and of those that follow each
// other, the first is there with their number.
func (h *history) report(faults []string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out strings.Builder
	fmt.Fprintf(&out, "seed %d\n", h.seed)
	for _, f := range faults {
		fmt.Fprintf(&out, "  %s\n", f)
	}
	if len(faults) > 0 {
		fmt.Fprintf(&out, "again: go test ./internal/simulation -run TestSimulation -sim.first=%d -sim.seeds=1 -count=100 -failfast\n", h.seed)
	}
	type told struct {
		line
		text  string
		times int
	}
	var all []*told
	instant := map[string]*told{}
	step := 0
	for _, l := range h.trace {
		text := fmt.Sprintf(l.format, l.args...)
		if l.state != "" {
			step++
			text = fmt.Sprintf("%3d %-12s  %s", step, l.state, text)
			clear(instant)
		} else if len(all) > 0 && all[len(all)-1].at != l.at && all[len(all)-1].text != text {
			clear(instant)
		}
		if same := instant[text]; same != nil {
			same.times++
			continue
		}
		instant[text] = &told{l, text, 1}
		all = append(all, instant[text])
	}
	for _, t := range all {
		if t.state == "" {
			t.text = fmt.Sprintf("%22s%s", "", t.text)
		}
		if t.times > 1 {
			t.text += fmt.Sprintf(" (%d times)", t.times)
		}
		fmt.Fprintf(&out, "%14s  %s\n", t.at.Round(time.Microsecond), t.text)
	}
	return out.String()
}
