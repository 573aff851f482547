// Package takeover hands a server over from one supervisor to another, when its
// configuration has changed.
//
// For a while there are both. The new one comes up beside the old one, which
// serves until then; it goes on with the calls that it has, and all others go to
// its successor. Both would fill the same place in the catalog, and a [Turn]
// decides whose word counts.
//
//	next.Stage(old)   next may start: the lists that it fetches are kept back
//	old.Retire(next)  old gets no more calls, and no longer changes the lists
//	next.Promote()    next is the one that clients see, and its lists are there
//
// or, instead of the last two, next.Abandon(old): next never will be, and old goes
// on.
package takeover

import (
	"context"
	"errors"
	"sync"

	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

// A Supervisor is what a Turn needs of a [*supervisor.Supervisor].
type Supervisor interface {
	Call(context.Context, session.Request, supervisor.CallOptions) (session.Reply, error)
	Await(context.Context) error
	Session() session.Session
}

// A Shelf is a server's place in the catalog: a [*catalog.Handle], or something
// around it.
type Shelf interface {
	Fetch(context.Context, session.Session, supervisor.Lists) (*catalog.Listing, error)
	Publish(*catalog.Listing) error
	Withdraw()
}

// A Turn is the time in which one supervisor looks after a server. It is the
// supervisor's lister, and the way for calls to it or to whoever has taken over
// from it: so callers may keep a Turn for as long as a call takes. Its methods may be called
// concurrently, in any state.
type Turn struct {
	base  uint64
	shelf Shelf
	sup   Supervisor

	mu        sync.Mutex       // may be held while a successor's is taken
	staged    bool             // another is the one that clients see
	held      *catalog.Listing // while staged: its lists
	withdrawn bool             // it has withdrawn its lists, which clients don't see yet
	retired   bool
	next      *Turn // takes over, or is about to
	calls     int
	idle      chan struct{} // closed when retired, and the last call has ended
}

var _ supervisor.Lister = (*Turn)(nil)

// New returns the turn of the supervisor that Begin names, whose lists go to a
// shelf. Base is added to the ids of its calls, which others know by them over
// several turns.
func New(base uint64, shelf Shelf) *Turn {
	return &Turn{base: base, shelf: shelf, idle: make(chan struct{})}
}

// Begin names the supervisor. It is called once, before all else: the supervisor
// needs the turn to be made.
func (t *Turn) Begin(s Supervisor) { t.sup = s }

// Stage makes the turn one that waits to take over from another. It is called
// before its supervisor runs.
func (t *Turn) Stage(old *Turn) {
	t.staged = true
	old.mu.Lock()
	defer old.mu.Unlock()
	old.next = t
}

// Retire ends the taking of calls, and of lists. Calls go to next; if that is
// nil they are told that the server is shut down.
func (t *Turn) Retire(next *Turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retired, t.next = true, next
	if t.calls == 0 {
		close(t.idle)
	}
}

// Abandon ends a turn that waits to take over from another, and never will.
func (t *Turn) Abandon(old *Turn) {
	t.Retire(nil)
	old.mu.Lock()
	defer old.mu.Unlock()
	if old.next != t || old.retired {
		return
	}
	old.next = nil
	if old.withdrawn {
		old.withdrawn = false
		old.shelf.Withdraw()
	}
}

// Idle is closed when the turn is retired and its last call has ended.
func (t *Turn) Idle() <-chan struct{} { return t.idle }

// Promote makes the turn the one that clients see. If it has not listed yet, its
// predecessor's entries stay until it does.
func (t *Turn) Promote() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.staged = false
	switch {
	case t.held != nil:
		_ = t.shelf.Publish(t.held) // fails for a server that was removed meanwhile
		t.held = nil
	case t.withdrawn:
		t.shelf.Withdraw()
	}
}

// Call has the supervisor whose turn it is make a call.
func (t *Turn) Call(ctx context.Context, req session.Request, opt supervisor.CallOptions) (session.Reply, error) {
	for !t.enter() {
		next := t.successor()
		if next == nil {
			return t.sup.Call(ctx, req, opt) // and says that it is shut down
		}
		t = next
	}
	defer t.leave()
	if started := req.Started; started != nil && t.base != 0 {
		req.Started = func(id uint64) { started(t.base + id) }
	}
	return t.sup.Call(ctx, req, opt)
}

// Await has the supervisor whose turn it is wait for a session. One that ends
// while it waits leaves the waiting to its successor.
func (t *Turn) Await(ctx context.Context) error {
	for {
		t = t.latest()
		if err := t.sup.Await(ctx); t.latest() == t || ctx.Err() != nil {
			return err
		}
	}
}

// Session returns the session of the supervisor whose turn it is, nil if it has
// none.
func (t *Turn) Session() session.Session { return t.latest().sup.Session() }

// latest returns the turn that gets the calls now.
func (t *Turn) latest() *Turn {
	for {
		t.mu.Lock()
		next := t.next
		if !t.retired {
			next = nil
		}
		t.mu.Unlock()
		if next == nil {
			return t
		}
		t = next
	}
}

func (t *Turn) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.retired {
		return false
	}
	t.calls++
	return true
}

func (t *Turn) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls--; t.retired && t.calls == 0 {
		close(t.idle)
	}
}

func (t *Turn) successor() *Turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next
}

// List implements [supervisor.Lister]. One that waits to take over lists, too:
// that is what makes it ready.
func (t *Turn) List(ctx context.Context, s session.Session, which supervisor.Lists) error {
	if t.over() {
		return errSucceeded
	}
	got, err := t.shelf.Fetch(ctx, s, which)
	if got == nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.retired:
		return errSucceeded
	case t.staged:
		t.held, t.withdrawn = t.held.Then(got), false
	default:
		if err := t.shelf.Publish(got); err != nil {
			return err
		}
		t.withdrawn = false
	}
	return err
}

var errSucceeded = errors.New("the configuration has changed, and another session has taken over")

func (t *Turn) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.retired
}

// ready reports whether the turn has lists and only waits to be promoted.
func (t *Turn) ready() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held != nil
}

// Withdraw implements [supervisor.Lister]. Once a successor has lists the
// entries stay, as its own are about to replace them.
func (t *Turn) Withdraw() {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.retired:
	case t.staged:
		t.held, t.withdrawn = nil, true
	case t.next != nil && t.next.ready():
		t.withdrawn = true
	default:
		t.shelf.Withdraw()
	}
}
