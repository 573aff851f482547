package simulation

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hermes-host/hermes-host/host/session"
)

// A world is a server with its transport, as a history scripts it.
type world struct {
	h *history

	mu       sync.Mutex
	manners  manners
	mended   bool          // manners are good and no death is to come
	thaw     chan struct{} // closed when what hangs goes on
	sessions []*sess
	dials    int
	open     int       // attempts and sessions that are there
	since    time.Time // since when the latest is
	handed   []byte    // params of a call that came after another had taken over
	closing  time.Time // since when it is being closed; zero: it is not
}

func newWorld(h *history) *world { return &world{h: h, thaw: make(chan struct{})} }

// set changes the manners.
func (w *world) set(m manners) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.manners = m
}

func (w *world) now() manners {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.manners
}

// mend gives the world good manners for good. If thaw is set, what hangs goes on
// at once and sessions hear at once that their servers are gone; else all that
// takes as long as it is let.
func (w *world) mend(thaw bool) {
	w.mu.Lock()
	w.manners, w.mended = manners{}, true
	w.mu.Unlock()
	if !thaw {
		return
	}
	close(w.thaw)
	for _, s := range w.all() {
		select {
		case <-s.crash:
			s.die(exited())
		default:
		}
	}
}

// dialled returns the number of the latest attempt.
func (w *world) dialled() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dials
}

// all returns the sessions so far.
func (w *world) all() []*sess {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.sessions)
}

// latest returns the latest session, nil if there was none.
func (w *world) latest() *sess {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.sessions) == 0 {
		return nil
	}
	return w.sessions[len(w.sessions)-1]
}

// Connect implements session.Transport.
func (w *world) Connect(ctx context.Context, handler session.Handler) (session.Session, error) {
	w.mu.Lock()
	w.dials++
	n, m := w.dials, dials[w.manners.dial]
	w.open++
	w.since, w.closing = time.Now(), time.Time{}
	overlap := w.open > 1
	w.mu.Unlock()
	w.h.event("dial %d: %s", n, m.name)
	if overlap {
		w.h.fault("dial %d while another attempt or session is there", n)
	}
	if err := m.play(ctx, w); err != nil {
		w.left()
		w.h.event("dial %d: %v", n, err)
		return nil, err
	}
	s := newSess(w, n, handler)
	w.mu.Lock()
	w.sessions = append(w.sessions, s)
	w.mu.Unlock()
	w.h.event("dial %d: session %d", n, n)
	if s.early() {
		s.speak()
	}
	switch {
	case m.dies == 0:
	case m.dies < 0:
		s.die(gone("dead on arrival"))
	default:
		time.AfterFunc(m.dies, func() {
			w.mu.Lock()
			mended := w.mended
			w.mu.Unlock()
			if !mended {
				s.die(gone("died young"))
			}
		})
	}
	return s, nil
}

// left notes the end of an attempt or session.
func (w *world) left() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open--
}

// wait takes d, or until the world thaws, and returns nil, or the cause of ctx
// if that ends first. Zero d is for ever.
func (w *world) wait(ctx context.Context, d time.Duration) error {
	var timer <-chan time.Time
	if d > 0 {
		timer = time.After(d)
	}
	select {
	case <-timer:
	case <-w.thaw:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

func exited() *session.End { return gone("exit status 3") }

func gone(msg string) *session.End {
	return &session.End{Class: session.Gone, Message: msg, Retryable: true}
}
