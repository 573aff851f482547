package supervisor

import (
	"time"

	"github.com/hermes-host/hermes-host/host/session"
)

// ParkKind says what a parked server waits for.
type ParkKind int

const (
	NotParked     ParkKind = iota
	Resting                // its revive timer, a call, or an operator
	Foreign                // the same; the peer spoke something else, such as an HTML page
	Unauthorized           // a person's authorization
	Misconfigured          // a changed configuration
	ByOperator             // the operator who parked it
)

// parkKind returns the kind of park that an end leads to.
func parkKind(end *session.End) ParkKind {
	if end.Retryable {
		return Resting
	}
	switch end.Class {
	case session.Auth:
		return Unauthorized
	case session.ConfigFault:
		return Misconfigured
	case session.Protocol:
		return Foreign
	}
	return Resting
}

// person reports whether only a person can end the park.
func (k ParkKind) person() bool {
	return k == Unauthorized || k == Misconfigured || k == ByOperator
}

var remedies = [...]string{
	NotParked:     "",
	Resting:       "it is tried again by itself and when it is called",
	Foreign:       "it is tried again by itself and when it is called",
	Unauthorized:  "it needs an authorization, then reconnects",
	Misconfigured: "its configuration must be changed",
	ByOperator:    "parked by an operator, until an operator's reconnect",
}

// String says what the server waits for.
func (k ParkKind) String() string { return remedies[k] }

// Ordered reports whether an operator has parked the server.
func (s *Supervisor) Ordered() bool {
	v := s.view.Load()
	return v.state == Parked && v.parked.kind == ByOperator
}

// park is the present park, or the latest.
type park struct {
	kind   ParkKind
	number uint64 // counts parks; a demand names the one it saw
}

// park takes the server down until something wakes it. The breaker opens
// before the state can be seen, so a call that finds the server parked has
// either passed as the probe, or its ticket is void.
func (s *Supervisor) park(kind ParkKind, reason string, cause *session.End) {
	s.nextAt = time.Time{}
	if !kind.person() {
		s.nextAt = time.Now().Add(s.pace.revive())
	}
	s.parked = park{kind, s.parked.number + 1}
	s.breaker.Trip()
	s.fire(giveUp, reason, cause)
	s.unlist()
}

// Why a server is tried again without anybody's order.
const (
	reviving = "revive timer"
	demanded = "called while parked"
)

// rouse begins the way back from a park.
func (s *Supervisor) rouse(reason string) {
	s.parked.kind = NotParked
	s.nextAt = time.Now()
	s.fire(wake, reason, nil)
}

// apply parks the server on an operator's order.
func (m parkOrder) apply(s *Supervisor) {
	switch s.state {
	case Stopped, Disabled:
	case Parked:
		s.nextAt, s.parked.kind, s.reason = time.Time{}, ByOperator, m.reason
		s.publish()
	default:
		s.again = false
		s.retire(&session.End{Class: session.Closed, Message: "parked: " + m.reason, Retryable: true})
		s.park(ByOperator, m.reason, nil)
	}
}

// apply gives a parked server one attempt, because somebody calls it.
func (m demand) apply(s *Supervisor) {
	if s.state == Parked && m.park == s.parked.number && !s.parked.kind.person() {
		s.pace.once()
		s.rouse(demanded)
	}
}

// revive gives a parked server one attempt because its time has come.
func (s *Supervisor) revive() {
	s.pace.once()
	s.rouse(reviving)
}

// unlist takes the server's entries out of the catalog, after a list worker
// that may still publish some.
func (s *Supervisor) unlist() {
	if s.listing {
		s.withdraw = true
		return
	}
	s.withdraw = false
	s.cfg.Lister.Withdraw()
}
