package supervisor

import (
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/host/session"
)

// A logger writes one line for each change of state and each new reason. A
// server that is down for weeks says so once: attempts to revive it, and
// attempts that fail as earlier ones did, are for the debug level.
type logger struct {
	hclog.Logger
	told []string // why attempts have failed and the server parked since it was ready; the latest
}

// toldReasons is how many reasons are remembered: servers that fail for one
// reason and another in turn are no news either.
const toldReasons = 4

// news reports whether a reason is a new one, and remembers it.
func (l *logger) news(reason string) bool {
	if slices.Contains(l.told, reason) {
		return false
	}
	if len(l.told) == toldReasons {
		l.told = l.told[1:]
	}
	l.told = append(l.told, reason)
	return true
}

// transition logs a change of state at the level of its meaning.
func (l *logger) transition(t Transition, ordered bool) {
	args := append(t.keys(), "generation", t.Generation, "attempt", t.Attempt)
	if t.Cause == nil || t.Cause.Message != t.Reason {
		args = append(args, "reason", t.Reason)
	}
	if !t.Next.IsZero() {
		args = append(args, "next", until(t.Next))
	}
	if t.Cause != nil {
		args = append(args, "error", t.Cause.Message)
	}
	level := hclog.Info
	switch {
	case t.Repeated, t.From == Parked && t.To == Reconnecting:
		level = hclog.Debug
	case t.To == Parked && !ordered:
		level = hclog.Error
	case t.To == Reconnecting && t.Cause != nil:
		level = hclog.Warn
	}
	l.Log(level, t.message(), args...)
}

// keys returns what a line begins with: the state, if it is the server's.
func (t Transition) keys() []any {
	if t.Aside != "" {
		return nil
	}
	return []any{"state", t.To}
}

// message says what is in a state. Only a server is stopped: a session that is
// one of several has ended.
func (t Transition) message() string {
	switch {
	case t.Aside == "":
		return "server " + t.To.String()
	case t.To == Stopped:
		return t.Aside + " ended"
	}
	return t.Aside + " " + t.To.String()
}

// parkPrefix tells the reason of a park from that of an attempt.
const parkPrefix = "parked: "

// repeated reports whether a change of state tells nothing new. It is asked
// once about each.
func (l *logger) repeated(e event, reason string, cause *session.End) bool {
	switch e {
	case arrived:
		l.told = nil
	case wake:
		if reason == reviving || reason == demanded {
			return true
		}
		l.told = nil // whoever gave the order wants to know what comes of it
	case giveUp:
		return cause != nil && !l.news(parkPrefix+reason)
	}
	return false
}

// attempt logs a failed attempt that another will follow.
func (l *logger) attempt(t Transition) {
	level := hclog.Warn
	if t.Repeated {
		level = hclog.Debug
	}
	message := "attempt failed"
	if t.Aside != "" {
		message = t.Aside + ": " + message
	}
	l.Log(level, message, append(t.keys(), "generation", t.Generation, "attempt", t.Attempt,
		"next", until(t.Next), "error", t.Reason)...)
}

// until is a text, since a number would have no unit in a log of JSON.
func until(t time.Time) string {
	return max(0, time.Until(t)).Round(time.Millisecond).String()
}
