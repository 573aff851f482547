package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	wordwrap "github.com/mitchellh/go-wordwrap"

	"github.com/hermes-host/hermes-host/host/admin"
)

// This file writes the table of status: a line per server, and on a terminal that
// is too narrow for the reasons the reason below the server that needs one.

// paints are the colours of states.
var paints = map[string]string{"ready": "32", "connecting": "33", "reconnecting": "33", "parked": "31", "disabled": "2", "stopped": "2"}

// A column is one of the table but the last, which says why.
type column struct {
	name string
	cell func(admin.Server) string
}

const (
	columnState = "STATE"
	columnLeft  = "LEFT"
	columnNext  = "NEXT"
)

var columns = []column{
	{"SERVER", func(s admin.Server) string { return s.Name }},
	{"TRANSPORT", func(s admin.Server) string { return cmp.Or(s.Transport, "-") }},
	{columnState, func(s admin.Server) string { return s.State }},
	{"SINCE", func(s admin.Server) string { return span(time.Since(s.Since)) }},
	{columnLeft, func(s admin.Server) string {
		if retried(s) {
			return fmt.Sprint(s.Left)
		}
		return "-"
	}},
	{columnNext, func(s admin.Server) string {
		if s.NextAttempt != nil {
			return ahead("", time.Until(*s.NextAttempt))
		}
		return "-"
	}},
	{"BREAKER", func(s admin.Server) string { return breakerText(s.Breaker) }},
	{"SESSIONS", func(s admin.Server) string { return fmt.Sprintf("%d/%d", s.Sessions, s.Starts) }},
	{"CALLS", func(s admin.Server) string {
		return fmt.Sprintf("%d/%d/%d", s.Calls.Total, s.Calls.Failed, s.Calls.InFlight)
	}},
	{"TOOLS", func(s admin.Server) string {
		if !s.Catalog.Live && s.Catalog.Tools > 0 {
			return fmt.Sprintf("0 (%d known)", s.Catalog.Tools)
		}
		return fmt.Sprint(s.Catalog.Tools)
	}},
}

// dispensable are the columns that a narrow terminal goes without, the first
// goes first. What LEFT and NEXT say is then said below.
var dispensable = []string{columnNext, columnLeft, "TRANSPORT", "BREAKER", "SESSIONS"}

const (
	gap       = 2  // columns of a terminal between those of the table
	leastWhy  = 20 // a column of reasons that is narrower tells nothing
	noteLines = 4  // of what is said below a server
	indent    = "    "
)

// table writes one line per server, and what is to say of it. Without a terminal
// that is one line, whatever its length. On a terminal the reason of a server
// that is ready is cut to fit; that of another, and advice, are on lines below if
// they don't fit.
func (v *statusView) table(b *strings.Builder, servers []admin.Server) {
	used, rows, widths := v.layout(servers)
	room := math.MaxInt
	if v.width > 0 {
		room = v.width
		for _, w := range widths {
			room -= w + gap
		}
	}
	shown := func(name string) bool {
		return slices.ContainsFunc(used, func(c column) bool { return c.name == name })
	}
	for n, row := range rows {
		last, notes := "WHY", []string(nil)
		if n > 0 {
			last, notes = v.why(servers[n-1], room, shown)
		}
		var line strings.Builder
		left := cmp.Or(v.width, math.MaxInt)
		for i, cell := range row {
			text := cell
			if i < len(row)-1 || room >= leastWhy {
				text += strings.Repeat(" ", widths[i]-len([]rune(cell))+gap)
			}
			text = cut(text, left)
			left -= len([]rune(text))
			if n > 0 && used[i].name == columnState {
				text = v.paint(paints[cell], text)
			}
			line.WriteString(text)
		}
		if room >= leastWhy {
			line.WriteString(cut(last, room))
		}
		b.WriteString(line.String() + "\n")
		for _, note := range notes {
			v.note(b, note)
		}
	}
}

// layout chooses the columns, and returns their cells, the heads first, with
// their widths.
func (v *statusView) layout(servers []admin.Server) (used []column, rows [][]string, widths []int) {
	used = slices.Clone(columns)
	for _, next := range append(slices.Clone(dispensable), "") {
		rows, widths = [][]string{nil}, make([]int, len(used))
		total := 0
		for i, c := range used {
			rows[0] = append(rows[0], c.name)
			widths[i] = len(c.name)
		}
		for _, s := range servers {
			row := make([]string, len(used))
			for i, c := range used {
				row[i] = c.cell(s)
				widths[i] = max(widths[i], len([]rune(row[i])))
			}
			rows = append(rows, row)
		}
		for _, w := range widths {
			total += w + gap
		}
		if v.width == 0 || total-gap <= v.width || next == "" {
			break
		}
		used = slices.DeleteFunc(used, func(c column) bool { return c.name == next })
	}
	return used, rows, widths
}

// why says why a server is as it is: in the last column, which has that much
// room, and below it.
func (v *statusView) why(s admin.Server, room int, shown func(column string) bool) (last string, below []string) {
	why := plain(reason(s))
	if s.State == "parked" && s.Changed.After(s.Since) {
		why += fmt.Sprintf("; last tried %s ago", span(time.Since(s.Changed)))
	}
	if t := s.Trouble; t != nil {
		why = fmt.Sprintf("in trouble for %s: %s", span(time.Since(t.Since)), t.Text)
	}
	if s.LastError != "" && s.LastErrorAt != nil && s.LastError != s.Reason {
		why += fmt.Sprintf("; last error %s ago: %s", span(time.Since(*s.LastErrorAt)), plain(s.LastError))
	}
	advice := ""
	if s.Advice != "" {
		advice = "advice: " + plain(s.Advice)
	}
	if v.width == 0 {
		if advice != "" {
			why += "; " + advice
		}
		return why, nil
	}
	fits := room >= leastWhy && len([]rune(why)) <= room
	switch {
	case s.State == "ready" && s.Trouble == nil, s.State == "disabled":
		last = why
	case fits && shown(columnLeft) && shown(columnNext):
		last = why
	default:
		if !shown(columnNext) && s.NextAttempt != nil {
			why += "; next attempt " + ahead("in ", time.Until(*s.NextAttempt))
		}
		if !shown(columnLeft) && retried(s) {
			why += fmt.Sprintf("; %d attempts left", s.Left)
		}
		below = append(below, why)
	}
	if advice != "" {
		below = append(below, advice)
	}
	return last, below
}

// note writes a text on lines of its own, of which there are few.
func (v *statusView) note(b *strings.Builder, text string) {
	width := max(v.width-len(indent), leastWhy)
	lines := strings.Split(wordwrap.WrapString(text, uint(width)), "\n")
	if len(lines) > noteLines {
		lines = append(lines[:noteLines-1], cut(strings.Join(lines[noteLines-1:], " "), width))
	}
	for _, line := range lines {
		b.WriteString(indent + line + "\n")
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
