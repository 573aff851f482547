package supervisor

import (
	"sync"

	"github.com/hermes-host/hermes-host/host/session"
)

// A message is something for Run to act on, in its goroutine. The set is
// closed: five reports of workers and six signals.
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
	// suspect and stale name the generation that they speak of.
	suspect struct{ gen uint64 }
	stale   struct {
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
