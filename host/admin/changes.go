package admin

import (
	"fmt"
	"strings"
)

// This file is about what is different in a configuration that is read again.

// Changes are what a reload does, or would do.
type Changes struct {
	DryRun  bool     `json:"dryRun,omitempty"`
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
	// Replaced servers get a new session, Updated ones keep theirs.
	Replaced []Change `json:"replaced,omitempty"`
	Updated  []Change `json:"updated,omitempty"`
	// Waiting servers are those whose new session an earlier reload has begun to
	// make, and that is awaited still. Dropped ones keep the session that they
	// have: what an earlier reload was about to change is as it was.
	Waiting []Change `json:"waiting,omitempty"`
	Dropped []string `json:"dropped,omitempty"`
	// Order is true if servers that stay have changed places.
	Order bool `json:"order,omitempty"`
	// Restart lists settings that only a restart of the host applies.
	Restart  []string `json:"restart,omitempty"`
	Live     []string `json:"live,omitempty"` // settings of the host that apply at once
	Warnings []string `json:"warnings,omitempty"`
}

// A Change is a server with settings that are different.
type Change struct {
	Server   string   `json:"server"`
	Settings []string `json:"settings"`
	// Trouble says why the new session was not up when the old one went.
	Trouble string `json:"trouble,omitempty"`
}

// None reports whether nothing is different that a reload applies.
func (c Changes) None() bool {
	return len(c.Added)+len(c.Removed)+len(c.Replaced)+len(c.Updated)+len(c.Dropped)+len(c.Live) == 0 && !c.Order
}

// Lines says what is different, one thing a line, as people read it.
func (c Changes) Lines() []string {
	var lines []string
	line := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, name := range c.Removed {
		line("- %s: removed", name)
	}
	for _, name := range c.Added {
		line("+ %s: added", name)
	}
	for _, change := range c.Replaced {
		line("~ %s: new session (%s)", change.Server, strings.Join(change.Settings, ", "))
	}
	for _, change := range c.Updated {
		line("~ %s: lists only (%s)", change.Server, strings.Join(change.Settings, ", "))
	}
	for _, change := range c.Waiting {
		line("~ %s: new session (%s), begun before", change.Server, strings.Join(change.Settings, ", "))
	}
	for _, name := range c.Dropped {
		line("~ %s: keeps its session, what was changed before is as it was", name)
	}
	if c.Order {
		line("~ the order of the servers")
	}
	for _, name := range c.Live {
		line("~ %s", name)
	}
	for _, name := range c.Restart {
		line("! %s: needs a restart of the host", name)
	}
	return lines
}

// maxSummaryLine bounds what a summary tells of one thing, in bytes.
const maxSummaryLine = 200

// Summary is the same in one line of some n bytes. What does not fit is
// counted.
func (c Changes) Summary(n int) string {
	lines := c.Lines()
	if len(lines) == 0 {
		return "nothing has changed"
	}
	var b strings.Builder
	for i, line := range lines {
		if len(line) > maxSummaryLine {
			line = strings.ToValidUTF8(line[:maxSummaryLine], "") + "…"
		}
		if i > 0 {
			b.WriteString("; ")
		}
		if b.Len()+len(line) > n {
			fmt.Fprintf(&b, "and %d more", len(lines)-i)
			break
		}
		b.WriteString(line)
	}
	return b.String()
}
