package supervisor

import (
	"time"

	"github.com/hermes-host/hermes-host/host/session"
)

// State is where a server is in its life.
type State int

const (
	Connecting   State = iota // on the way to its first session
	Ready                     // initialised and listed
	Reconnecting              // on the way to another session
	Parked                    // waits to be woken; offers nothing
	Stopped                   // shut down for good
	Disabled                  // never connected
)

var stateNames = [...]string{"connecting", "ready", "reconnecting", "parked", "stopped", "disabled"}

// String returns the state in lower case.
func (s State) String() string { return stateNames[s] }

// MarshalText returns the same as String.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// An event moves the machine.
type event int

const (
	arrived  event = iota // a session is initialised and listed
	lost                  // the session has ended
	giveUp                // no more attempts until woken
	wake                  // a parked server is to be tried again
	shutdown              // ctx has ended
)

var eventNames = [...]string{"arrived", "lost", "give up", "wake", "shutdown"}

func (e event) String() string { return eventNames[e] }

// machine is the whole of it: what is not here can't happen.
var machine = [...]map[event]State{
	Connecting:   {arrived: Ready, giveUp: Parked, shutdown: Stopped},
	Ready:        {lost: Reconnecting, giveUp: Parked, shutdown: Stopped},
	Reconnecting: {arrived: Ready, giveUp: Parked, shutdown: Stopped},
	Parked:       {wake: Reconnecting, shutdown: Stopped},
	Stopped:      {},
	Disabled:     {shutdown: Stopped},
}

// A Transition is one change of state, or a failed attempt that leaves it as it
// is: From and To are the same then.
type Transition struct {
	Server     string
	From, To   State
	At         time.Time
	Reason     string       // for people; never empty
	Cause      *session.End // the failure behind it, if one is
	Generation uint64       // of the latest session or attempt
	Attempt    int          // failed attempts in a row
	Next       time.Time    // the next attempt; zero if none is planned
	// Repeated says that nothing is new: an attempt failed, or the server parked,
	// for one of the latest reasons since it was ready, or a parked server is
	// tried again without anybody's order.
	Repeated bool
	// Aside names the session, if its state is not the server's; see
	// [Config.Aside].
	Aside string
}

// transition describes a change to a state. It leaves Repeated to the caller.
func (s *Supervisor) transition(to State, reason string, cause *session.End) Transition {
	return Transition{
		Server: s.cfg.Name, From: s.state, To: to, At: time.Now(), Reason: reason, Generation: s.gen,
		Cause: cause, Attempt: s.pace.failed, Next: s.nextAt, Aside: s.cfg.Aside(to),
	}
}

// fire moves the machine, publishes the new state and tells everybody. It
// reports whether the event fits the state; one that does not is a bug here,
// which is logged and changes nothing.
func (s *Supervisor) fire(e event, reason string, cause *session.End) bool {
	to, ok := machine[s.state][e]
	if !ok {
		s.log.Error("bug: event does not fit the state", "event", e, "state", s.state, "reason", reason)
		return false
	}
	t := s.transition(to, reason, cause)
	t.Repeated = s.log.repeated(e, reason, cause)
	s.state, s.since, s.reason = to, t.At, reason
	switch {
	case e == arrived:
		s.downSince = time.Time{}
	case e == giveUp && s.downSince.IsZero():
		s.downSince = t.At
	}
	s.publish()
	s.cfg.OnTransition(t) // first, so that who reads the log finds the event
	s.log.transition(t, s.parked.kind == ByOperator)
	return true
}
