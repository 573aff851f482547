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
// indented below, equal lines counted.
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
	step, prior, times := 0, line{}, 0
	last := ""
	flush := func() {
		switch {
		case times > 1:
			fmt.Fprintf(&out, "%s (%d times until %s)\n", last, times, prior.at)
		case times > 0:
			out.WriteString(last + "\n")
		}
	}
	same := "" // as the line before, the time aside
	for _, l := range h.trace {
		text := fmt.Sprintf(l.format, l.args...)
		if l.state != "" {
			step++
			text = fmt.Sprintf("  %3d %-12s  %s", step, l.state, text)
		} else {
			text = fmt.Sprintf("  %16s      %s", "", text)
		}
		if text != same {
			flush()
			last, same, times = fmt.Sprintf("%14s", l.at)+text, text, 0
		}
		prior = l
		times++
	}
	flush()
	return out.String()
}
