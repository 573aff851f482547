package supervisor

import (
	"time"

	"github.com/hermes-host/hermes-host/host/session"
)

// This file finds servers that hang, though their callers have less patience
// than Timeouts.Call. That a caller gives up says nothing by itself: it may have
// changed its mind. But if the server has not said a word for Timeouts.Health
// when it was owed an answer, it is checked, as it is when the breaker opens. No
// other request is needed for that, and how long callers wait makes no
// difference: calls that are given up one after the other add up to one silence.
//
// Calls that come during that check wait for its verdict: they would only have to
// be waited for.
//
// A server that does not answer the check either may be one that does one thing
// at a time, and is at it. So as long as a call is in flight the session stays.
// It is mute then: no further calls go to it, so that its last one comes to an
// end, by the answer, its caller or its limit. Anything that the server says
// makes an end of that. Once no call is in flight it is checked again; if it is
// silent still, nobody waits for it any more, and it is replaced.

// A doubt is a session's silence, of which a call that was given up has told.
type doubt struct {
	open  bool
	since time.Duration // on the clock of the session's pulse
	due   time.Time     // when to check; zero: not now
}

// apply notes that a call was given up, and plans a check for the time when the
// silence will have lasted.
func (m gaveUp) apply(s *Supervisor) {
	l := s.cur
	if l == nil || l.gen != m.gen {
		return
	}
	if !l.listed || l.pulse.heard() > m.since || l.pulse.mute.Load() != nil {
		if !s.health.running {
			l.pulse.release()
		}
		return
	}
	d := &s.health.doubt
	if d.open && l.pulse.heard() <= d.since {
		d.since = min(d.since, m.since)
	} else {
		*d = doubt{since: m.since, open: true}
	}
	if !s.health.running {
		d.due = l.pulse.start.Add(d.since + s.cfg.Timeouts.Health)
	}
}

// listen checks a session that has been silent for long enough, unless it has
// said something meanwhile.
func (s *Supervisor) listen() {
	d := &s.health.doubt
	d.due = time.Time{}
	if s.cur.pulse.heard() > d.since {
		*d = doubt{}
		s.cur.pulse.release()
		return
	}
	s.cur.pulse.hold()
	s.check()
}

// apply checks a mute session once more, since no call is left.
func (m drained) apply(s *Supervisor) {
	if s.cur != nil && s.cur.gen == m.gen && s.cur.pulse.mute.Load() != nil {
		s.check()
	}
}

// apply ends the muteness of a session that has said something.
func (m spoke) apply(s *Supervisor) {
	if s.cur != nil && s.cur.gen == m.gen {
		s.unmute()
	}
}

// silent follows from a check without an answer. What the server says at any
// time until then counts as one.
func (s *Supervisor) silent(l *live, end *session.End) {
	since := s.health.doubt.since
	l.pulse.mute.Store(end) // calls that begin now see it, or are seen below
	switch {
	case l.pulse.heard() > since:
		s.unmute()
	case l.pending.Load() == 0:
		s.drop(end)
	case s.troubles.now.Kind != Mute:
		s.breaker.Trip()
		s.fail(end)
		s.inTrouble(Mute, end.Message, l.pulse.start.Add(since))
	}
}

// unmute has calls go to the session again.
func (s *Supervisor) unmute() {
	s.health.doubt = doubt{}
	s.cur.pulse.mute.Store(nil)
	if s.troubles.now.Kind == Mute {
		s.breaker.Reset()
		s.outOfTrouble()
	}
}
