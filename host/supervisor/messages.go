package supervisor

import (
	"sync"
	"time"

	"github.com/hermes-host/hermes-host/host/session"
)

// A message is something for Run to act on, in its goroutine. The set is
// closed: five reports of workers, and signals.
type message interface{ apply(*Supervisor) }

// Reports of workers. Each worker sends one, through Supervisor.inbox.
type (
	// connected ends a dial: with a session, or an error.
	connected struct {
		sess session.Session
		err  error
	}
	// ended says that a session's Done is closed, or its context over.
	ended struct{ live *live }
	// listed ends a fetch of lists.
	listed struct {
		live  *live
		which Lists
		err   error
	}
	// checked ends a health check.
	checked struct {
		live *live
		err  error
	}
	// closed says that nothing is left of a session.
	closed struct{}
)

// Signals from anywhere, through the mailbox.
type (
	reconnect  struct{ by string }
	authorized struct{}
	parkOrder  struct{ reason string }
	// demand is a probe that found the server parked. It names the park that
	// it saw, so that it can't undo a later one.
	demand struct{ park uint64 }
	// The others name the generation that they speak of.
	suspect struct{ gen uint64 }
	// gaveUp is a call that ended without an answer, of a session that has been
	// silent since.
	gaveUp struct {
		gen   uint64
		since time.Duration
	}
	drained struct{ gen uint64 } // the last call of a mute session has ended
	spoke   struct{ gen uint64 } // a mute session has said something
	failing struct {
		gen  uint64
		kind TroubleKind // NoTrouble: a call's own failure
		fault
	}
	well  struct{ gen uint64 } // a call was answered
	stale struct {
		gen   uint64
		which Lists
	}
)

// A mailbox holds signals until Run takes them: at most one of each kind, so
// that a thousand callers ask for one thing once. Posting never blocks.
type mailbox struct {
	bell chan struct{} // one token while there may be mail

	mu   sync.Mutex
	mail []message // in the order of the last post of each kind
}

func (m *mailbox) init() { m.bell = make(chan struct{}, 1) }

// post adds a signal. It takes the place of an earlier one of its kind, whose
// content it covers.
func (m *mailbox) post(sig message) {
	m.mu.Lock()
	for i, old := range m.mail {
		if merged, ok := merge(old, sig); ok {
			sig = merged
			m.mail = append(m.mail[:i], m.mail[i+1:]...)
			break
		}
	}
	m.mail = append(m.mail, sig)
	m.mu.Unlock()
	select {
	case m.bell <- struct{}{}:
	default:
	}
}

// take empties the mailbox.
func (m *mailbox) take() []message {
	m.mu.Lock()
	defer m.mu.Unlock()
	mail := m.mail
	m.mail = nil
	return mail
}

// merge returns what is left to say after old and then sig were posted, if
// they are of one kind.
func merge(old, sig message) (message, bool) {
	switch sig := sig.(type) {
	case reconnect:
		_, ok := old.(reconnect)
		return sig, ok
	case authorized:
		_, ok := old.(authorized)
		return sig, ok
	case parkOrder:
		_, ok := old.(parkOrder)
		return sig, ok
	case demand:
		o, ok := old.(demand)
		return demand{max(o.park, sig.park)}, ok
	case suspect:
		o, ok := old.(suspect)
		return suspect{max(o.gen, sig.gen)}, ok
	case gaveUp:
		o, ok := old.(gaveUp)
		switch {
		case !ok:
			return nil, false
		case o.gen > sig.gen:
			return o, true
		case o.gen == sig.gen:
			sig.since = min(o.since, sig.since)
		}
		return sig, true
	case drained:
		o, ok := old.(drained)
		return drained{max(o.gen, sig.gen)}, ok
	case spoke:
		o, ok := old.(spoke)
		return spoke{max(o.gen, sig.gen)}, ok
	case well:
		o, ok := old.(well)
		return well{max(o.gen, sig.gen)}, ok
	case failing:
		o, ok := old.(failing)
		if ok && o.gen > sig.gen {
			return o, true
		}
		return sig, ok
	case stale:
		o, ok := old.(stale)
		switch {
		case !ok:
			return nil, false
		case o.gen > sig.gen:
			return o, true
		case o.gen == sig.gen:
			sig.which |= o.which
		}
		return sig, true
	}
	return nil, false
}
