package supervisor

import (
	"sync/atomic"
	"time"

	"github.com/hermes-host/hermes-host/host/session"
)

// A pulse notes when a session's server has last said something: an answer, a
// notification, a request. What it prints is no sign of life. Anybody may use
// it.
type pulse struct {
	start time.Time
	last  atomic.Int64                  // as now, of the last sign of life
	mute  atomic.Pointer[session.End]   // Run's: why no calls go to it, nil if they do; see silence.go
	wake  func()                        // called at a sign of life of a mute session
	held  atomic.Pointer[chan struct{}] // Run's: calls wait until it is closed; nil: they don't
}

// now returns the time on the clock of the pulse.
func (p *pulse) now() time.Duration { return time.Since(p.start) }

// heard returns the time of the last sign of life, zero if there was none.
func (p *pulse) heard() time.Duration { return time.Duration(p.last.Load()) }

// beat notes a sign of life.
func (p *pulse) beat() {
	p.last.Store(int64(p.now()))
	if p.mute.Load() != nil {
		p.wake()
	}
}

// hold has calls wait until release. Who calls it sees to that: Run by the end of
// a check, others by a message to Run. The end of the session will do, too.
func (p *pulse) hold() {
	held := make(chan struct{})
	p.held.CompareAndSwap(nil, &held)
}

// release lets calls go on that wait. It may be called at any time.
func (p *pulse) release() {
	if held := p.held.Swap(nil); held != nil {
		close(*held)
	}
}

// silentSince returns since when nothing has been heard while a request waited
// that was sent at that time.
func (p *pulse) silentSince(sent time.Duration) time.Duration { return max(sent, p.heard()) }
