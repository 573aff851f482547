package supervisor

import (
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/host/session"
)

// TroubleKind is a way in which a session that lives is of no use.
type TroubleKind int

const (
	NoTrouble TroubleKind = iota
	Mute                  // it does not answer, and calls are in flight still; others are refused
	Refused               // the server refuses what it is asked, for want of an authorization
	Garbled               // what comes for an answer is not MCP, such as a web page
)

var troubleNames = [...]string{"none", "mute", "authorization", "not MCP"}

// String returns a word or two.
func (k TroubleKind) String() string { return troubleNames[k] }

var headlines = [...]string{
	NoTrouble: "",
	Mute:      "it does not answer; until it says something no further calls go to it",
	Refused:   "it refuses calls for want of an authorization",
	Garbled:   "what it answers is not MCP",
}

// Headline says for people what is wrong.
func (k TroubleKind) Headline() string { return headlines[k] }

var cures = [...]string{
	NoTrouble: "",
	Mute:      "nothing: its session is replaced when the calls that it has have ended",
	Refused:   "authorize the host, or change the token in the configuration; what is called next is tried all the same",
	Garbled:   "see what answers in its place, such as a login page or a proxy; what is called next is tried all the same",
}

// Cure says what a person can do.
func (k TroubleKind) Cure() string { return cures[k] }

// A Trouble is what is wrong with the live session. The next answer ends it, as
// does the next session.
type Trouble struct {
	Kind  TroubleKind
	Since time.Time
	Text  string // what was seen, the latest
}

// troubles are the present one and what has been told.
type troubles struct {
	now  Trouble
	told bool // the present one was news
	lately
}

// A fault is why a call got no answer, and when.
type fault struct {
	text string
	at   time.Time
}

// apply notes a call that got no answer.
func (m failing) apply(s *Supervisor) {
	if s.cur == nil || s.cur.gen != m.gen {
		return
	}
	s.fault = m.fault
	if m.kind != NoTrouble {
		s.inTrouble(m.kind, m.text, m.at)
		return
	}
	s.publish()
	if s.troubles.news(m.text) {
		t := s.transition(s.state, m.text, nil)
		s.log.Info("call failed", append(t.keys(), "generation", s.gen, "error", m.text)...)
	}
}

// apply notes that a call was answered although the session was in trouble.
func (m well) apply(s *Supervisor) {
	if s.cur != nil && s.cur.gen == m.gen {
		s.well()
	}
}

// well ends the trouble of a session that has done what it was asked. That of a
// mute one ends otherwise: see unmute.
func (s *Supervisor) well() {
	if s.troubles.now.Kind != Mute {
		s.outOfTrouble()
	}
}

// inTrouble notes what is wrong with the session, and since when, and tells if
// that is new. A mute session is nothing else.
func (s *Supervisor) inTrouble(kind TroubleKind, text string, since time.Time) {
	t := &s.troubles
	switch {
	case t.now.Kind == Mute, t.now.Kind == kind && t.now.Text == text:
		s.publish()
		return
	case t.now.Kind == kind:
		t.now.Text = text
	default:
		t.now = Trouble{kind, since, text}
	}
	s.cur.troubled.Store(true)
	t.told = t.news(text)
	note := s.transition(s.state, kind.Headline(), &session.End{Class: session.Gone, Message: text, Retryable: true})
	note.Repeated = !t.told
	s.publish() // first, so that who hears of it finds it
	s.cfg.OnAttempt(note)
	s.log.trouble(note, "server in trouble")
}

// outOfTrouble notes that nothing is wrong with the session any more. If its
// beginning was no news, the end is none.
func (s *Supervisor) outOfTrouble() {
	was := s.troubles.now
	if was.Kind == NoTrouble {
		return
	}
	s.troubles.now = Trouble{}
	s.cur.troubled.Store(false)
	s.cur.noAuth.Store(false)
	s.publish()
	note := s.transition(s.state, "it answers again", nil)
	note.Repeated = !s.troubles.told
	if !note.Repeated {
		s.cfg.OnAttempt(note)
	}
	s.log.trouble(note, "server well again")
}

// trouble logs the beginning or the end of a trouble.
func (l *logger) trouble(t Transition, what string) {
	args := append(t.keys(), "generation", t.Generation, "reason", t.Reason)
	level := hclog.Info
	if t.Cause != nil {
		args, level = append(args, "error", t.Cause.Message), hclog.Warn
	}
	if t.Repeated {
		level = hclog.Debug
	}
	if t.Aside != "" {
		what = t.Aside + ": " + what
	}
	l.Log(level, what, args...)
}

// lately remembers what has been told of calls. A tool that one user may not
// call, among others that work, would otherwise be news again and again.
type lately struct{ said []fault }

const (
	// latelyReasons is how many are remembered.
	latelyReasons = 8
	// latelyFor is how long a reason must have been away to be news again.
	latelyFor = 10 * time.Minute
)

// news reports whether a reason is new, and remembers it.
func (l *lately) news(text string) bool {
	now := time.Now()
	l.said = slices.DeleteFunc(l.said, func(f fault) bool { return now.Sub(f.at) >= latelyFor })
	at := slices.IndexFunc(l.said, func(f fault) bool { return f.text == text })
	if at >= 0 {
		l.said[at].at = now
		return false
	}
	if len(l.said) == latelyReasons {
		l.said = slices.Delete(l.said, 0, 1)
	}
	l.said = append(l.said, fault{text, now})
	return true
}
