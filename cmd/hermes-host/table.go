package main

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/hermes-host/hermes-host/host/admin"
)

// This file writes the table of status: a line per server.

// paints are the colours of states.
var paints = map[string]string{"ready": "32", "connecting": "33", "reconnecting": "33", "parked": "31", "disabled": "2", "stopped": "2"}

// table writes one line per server. What does not fit a terminal is cut at the
// right.
func (v *statusView) table(b *strings.Builder, servers []admin.Server) {
	rows := [][]string{{"SERVER", "TRANSPORT", "STATE", "SINCE", "LEFT", "NEXT", "BREAKER", "SESSIONS", "CALLS", "TOOLS", "WHY"}}
	for _, s := range servers {
		next := "-"
		if s.NextAttempt != nil {
			next = ahead("", time.Until(*s.NextAttempt))
		}
		left := "-"
		if retried(s) {
			left = fmt.Sprint(s.Left)
		}
		tools := fmt.Sprint(s.Catalog.Tools)
		if !s.Catalog.Live && s.Catalog.Tools > 0 {
			tools = fmt.Sprintf("0 (%d known)", s.Catalog.Tools)
		}
		why := plain(reason(s))
		if s.LastError != "" && s.LastErrorAt != nil && s.LastError != s.Reason {
			last := plain(s.LastError)
			if v.width > 0 {
				last = cut(last, 80)
			}
			why += fmt.Sprintf("; last error %s ago: %s", span(time.Since(*s.LastErrorAt)), last)
		}
		if s.Advice != "" {
			why += "; advice: " + plain(s.Advice)
		}
		rows = append(rows, []string{
			s.Name, cmp.Or(s.Transport, "-"), s.State, span(time.Since(s.Since)), left, next, breakerText(s.Breaker),
			fmt.Sprintf("%d/%d", s.Sessions, s.Starts), fmt.Sprintf("%d/%d/%d", s.Calls.Total, s.Calls.Failed, s.Calls.InFlight),
			tools, why,
		})
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for n, row := range rows {
		room := cmp.Or(v.width, math.MaxInt)
		for i, cell := range row {
			last := i == len(row)-1
			text := cell
			if !last {
				text += strings.Repeat(" ", widths[i]-len([]rune(cell))+2)
			}
			text = cut(text, room)
			room -= len([]rune(text))
			if n > 0 && i == 2 {
				text = v.paint(paints[cell], text)
			}
			b.WriteString(text)
		}
		b.WriteByte('\n')
	}
}

// retried reports whether attempts to reach a server count: not for one that is
// out of service, or that only a person can bring back.
func retried(s admin.Server) bool {
	switch s.State {
	case "disabled", "stopped":
		return false
	case "parked":
		return s.NextAttempt != nil
	}
	return true
}

// reason says why a server is in its state. One that has never been up has not
// come from another: it says how far it is.
func reason(s admin.Server) string {
	switch {
	case s.State != "connecting":
		return s.Reason
	case s.NextAttempt != nil && time.Until(*s.NextAttempt) > 0:
		return fmt.Sprintf("waiting for attempt %d", s.Failed+1)
	}
	return fmt.Sprintf("connecting, attempt %d", s.Failed+1)
}

func (v *statusView) paint(code, text string) string {
	if !v.color || code == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func breakerText(b admin.Breaker) string {
	if b.RetryAfter > 0 {
		return b.State + " " + span(time.Duration(b.RetryAfter*float64(time.Second)))
	}
	return b.State
}
