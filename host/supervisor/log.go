package supervisor

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/host/session"
)

// A logger writes one line for each change of state and each new reason. A
// server that is down for weeks says so once: attempts to revive it, and
// attempts that fail as the last one did, are for the debug level.
type logger struct {
	hclog.Logger
	failed string // the error of the attempt or park logged last
}

// transition logs a change of state at the level of its meaning.
func (l *logger) transition(t Transition, ordered bool) {
	args := []any{"state", t.To, "generation", t.Generation, "attempt", t.Attempt}
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
	case t.To == Ready:
		l.failed = ""
	case t.To == Parked && !ordered:
		level = hclog.Error
		if l.failed == parkPrefix+t.Reason {
			level = hclog.Debug
		}
		l.failed = parkPrefix + t.Reason
	case t.From == Parked && t.To == Reconnecting:
		level = hclog.Debug
	case t.To == Reconnecting && t.Cause != nil:
		level = hclog.Warn
	}
	l.Log(level, "server "+t.To.String(), args...)
}

// parkPrefix tells the reason of a park from that of an attempt.
const parkPrefix = "parked: "

// attempt logs a failed attempt that another will follow.
func (l *logger) attempt(s *Supervisor, end *session.End, wait time.Duration) {
	level := hclog.Warn
	if l.failed == end.Message {
		level = hclog.Debug
	}
	l.failed = end.Message
	l.Log(level, "attempt failed", "state", s.state, "generation", s.gen, "attempt", s.pace.failed,
		"next", wait.Round(time.Millisecond), "error", end.Message)
}

func until(t time.Time) time.Duration {
	return max(0, time.Until(t)).Round(time.Millisecond)
}
