package host

import (
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/host/admin"
	"github.com/hermes-host/hermes-host/host/config"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

// This file keeps the latest events and log lines for operators.

// Events implements [admin.Host].
func (h *Host) Events() *admin.Feed[admin.Event] { return h.events }

// Logs implements [admin.Host]. The feed has the lines down to level debug,
// whatever level the log is at, if Settings.Logger is an
// [hclog.InterceptLogger], and else none.
func (h *Host) Logs() *admin.Feed[admin.Line] { return h.logs }

// A teller makes events of what a member's supervisor tells, from the
// supervisor's goroutine. A server that is away for weeks is one event for each
// reason: that it is tried again, and fails as it did before, is counted, and
// told with the next event that is news.
type teller struct {
	h    *Host
	cfg  *config.Config
	own  *own                   // whose session it is; nil: the server's
	ill  bool                   // of a client's session: it has had trouble since it was ready
	held *supervisor.Transition // a revival that is no news unless it leads to some
	same int                    // failures that were not told
}

// tell keeps a transition, or a failed attempt. It does not block. That a client's
// session begins and ends as clients come and go is no news.
func (l *teller) tell(t supervisor.Transition) {
	if l.own != nil {
		was := l.ill
		l.ill = t.To != supervisor.Ready
		if t.To == supervisor.Stopped || t.To == supervisor.Ready && t.From != t.To && !was {
			return
		}
	}
	switch {
	case t.Repeated && t.From == supervisor.Parked:
		l.held = &t
	case t.Repeated:
		l.held = nil
		l.same++
	default:
		if l.held != nil {
			l.add(*l.held)
			l.held = nil
		}
		l.add(t)
	}
}

func (l *teller) add(t supervisor.Transition) {
	e := admin.Event{
		At: t.At, Server: t.Server, From: t.From.String(), To: t.To.String(),
		Reason: l.cfg.Redact(t.Reason), Generation: t.Generation, Attempt: t.Attempt, Repeated: l.same,
	}
	if t.Aside != "" {
		e.Session = &admin.Aside{Kind: t.Aside, From: e.From, To: e.To}
		e.From, e.To = "", ""
		if l.own != nil {
			e.Session.ID, e.Session.Client = l.own.tag, l.own.name
		}
	}
	l.same = 0
	if t.Cause != nil {
		e.Error = l.cfg.Redact(t.Cause.Message)
	}
	if !t.Next.IsZero() {
		e.Next = &t.Next
	}
	l.h.events.Add(func(seq uint64) admin.Event { e.Seq = seq; return e })
}

// note keeps an event of the host itself.
func (h *Host) note(reason, err string) {
	e := admin.Event{At: time.Now(), Reason: reason, Error: err}
	h.events.Add(func(seq uint64) admin.Event { e.Seq = seq; return e })
}

// tapLog copies the log to the feed; untapLog ends that.
func (h *Host) tapLog() {
	if l, ok := h.log.(hclog.InterceptLogger); ok {
		l.RegisterSink(sink{h})
	}
}

func (h *Host) untapLog() {
	if l, ok := h.log.(hclog.InterceptLogger); ok && h.settings.Admin && !h.untapped.Swap(true) {
		l.DeregisterSink(sink{h})
	}
}

// maxText bounds a line's message and each value in it, in bytes.
const maxText = 4 << 10

// sink takes lines from the log. hclog calls it one line at a time, from the
// goroutine that logs.
type sink struct{ h *Host }

// Accept implements [hclog.SinkAdapter].
func (s sink) Accept(name string, level hclog.Level, msg string, args ...any) {
	if level < hclog.Debug {
		return
	}
	h := s.h
	cfg := h.redactor.Load()
	clean := func(text string) string {
		if cfg != nil {
			text = cfg.Redact(text)
		}
		if len(text) > maxText {
			text = text[:maxText] + "…"
		}
		return text
	}
	line := admin.Line{At: time.Now(), Level: level.String(), Logger: name, Message: clean(msg)}
	for i := 0; i < len(args); i += 2 {
		key, val := "extra", args[i]
		if i+1 < len(args) {
			key, val = fmt.Sprint(args[i]), args[i+1]
		}
		text := clean(fmt.Sprint(val))
		if key == "server" {
			line.Server = text
			continue
		}
		line.Fields = append(line.Fields, admin.Field{Key: key, Value: text})
	}
	h.logs.Add(func(seq uint64) admin.Line { line.Seq = seq; return line })
}
