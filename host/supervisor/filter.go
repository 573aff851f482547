package supervisor

import (
	"sync"
	"sync/atomic"

	"github.com/hermes-host/hermes-host/host/session"
)

// maxHeld bounds what is kept of a session's events before it is published.
const maxHeld = 256

// A filter stands between a session and the configured handler. It passes
// events on from the moment the session is published until it is retired.
// What comes earlier is kept, since a server may ask something right after the
// handshake and nobody could answer yet.
type filter struct {
	to    session.Handler
	stale func(Lists) // hears of changed lists
	pulse *pulse

	open   atomic.Bool // pass directly
	closed atomic.Bool // drop

	mu   sync.Mutex // orders what was held before what comes
	held []func()
	lost int // events over maxHeld
}

func (f *filter) Notification(n session.Notification) {
	f.pulse.beat()
	if which := ChangedLists(n.Method); which != 0 && !f.closed.Load() {
		f.stale(which)
	}
	f.pass(func() { f.to.Notification(n) })
}

func (f *filter) Request(r session.ServerRequest) {
	f.pulse.beat()
	f.pass(func() { f.to.Request(r) })
}

func (f *filter) Log(l session.LogLine) {
	if !f.closed.Load() {
		f.to.Log(l)
	}
}

func (f *filter) pass(event func()) {
	if f.closed.Load() {
		return
	}
	if f.open.Load() {
		event()
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed.Load():
	case f.open.Load():
		event()
	case len(f.held) < maxHeld:
		f.held = append(f.held, event)
	default:
		f.lost++
	}
}

// publish passes on what was held, then everything. It returns how many events
// were lost because too many came.
func (f *filter) publish() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, event := range f.held {
		event()
	}
	f.held = nil
	f.open.Store(true)
	return f.lost
}

// retire drops everything from now on.
func (f *filter) retire() { f.closed.Store(true) }
