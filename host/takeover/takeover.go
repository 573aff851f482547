// Package takeover hands a server over from one supervisor to another, when its
// configuration has changed.
//
// For a while there are both. The new one comes up beside the old one, which
// serves until then; it goes on with the calls that it has, and all others go to
// its successor. Both keep the same entries of the catalog up to date, and a
// [Turn] decides whose word counts.
//
//	next.Stage(old)   next may start: what it says of lists is kept back
//	old.Retire(next)  old gets no more calls, and no longer changes the lists
//	next.Promote()    next is the one that clients see
package takeover

import (
	"context"
	"errors"
	"sync"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

// A Supervisor is what a Turn needs of a [*supervisor.Supervisor].
type Supervisor interface {
	Call(context.Context, session.Request, supervisor.CallOptions) (session.Reply, error)
	Refresh(supervisor.Lists)
}

// A Turn is the time in which one supervisor looks after a server. It is the
// supervisor's lister, and the way for calls to it. Its methods may be called
// concurrently, in any state.
type Turn struct {
	base  uint64
	lists supervisor.Lister
	sup   Supervisor

	mu        sync.Mutex // may be held while a successor's is taken
	staged    bool       // another is the one that clients see
	listed    bool       // it has listed, and not withdrawn since
	withdrawn bool       // the latest that its supervisor has said of its lists
	outdated  bool       // while staged: the predecessor has listed later
	retired   bool
	next      *Turn // takes over, or is about to
	calls     int
	idle      chan struct{} // closed when retired, and the last call has ended
}

var _ supervisor.Lister = (*Turn)(nil)

// New returns the turn of the supervisor that Begin names, whose lists go to
// lists. Base is added to the ids of its calls, which others know by them over
// several turns.
func New(base uint64, lists supervisor.Lister) *Turn {
	return &Turn{base: base, lists: lists, idle: make(chan struct{})}
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

// Idle is closed when the turn is retired and its last call has ended.
func (t *Turn) Idle() <-chan struct{} { return t.idle }

// Promote makes the turn the one that clients see.
func (t *Turn) Promote() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.staged = false
	if t.withdrawn {
		t.lists.Withdraw()
	}
	if t.outdated {
		t.sup.Refresh(supervisor.AllLists)
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
	t.mu.Lock()
	if t.retired {
		t.mu.Unlock()
		return errSucceeded
	}
	if which == supervisor.AllLists {
		t.outdated = false // what the predecessor says meanwhile counts again
	}
	t.mu.Unlock()
	err := t.lists.List(ctx, s, which)
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, partial := errors.AsType[*supervisor.PartialError](err); err != nil && !partial {
		return err
	}
	t.listed, t.withdrawn = true, false
	if t.next != nil {
		t.next.overwritten()
	}
	return err
}

var errSucceeded = errors.New("the configuration has changed, and another session has taken over")

// overwritten hears that the predecessor's lists may have replaced its own.
func (t *Turn) overwritten() {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.staged:
		t.outdated = true
	case t.retired && t.next != nil:
		t.next.overwritten()
	case t.withdrawn:
		t.lists.Withdraw()
	default:
		t.sup.Refresh(supervisor.AllLists)
	}
}

// ready reports whether the turn has listed and only waits to be promoted.
func (t *Turn) ready() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.staged && t.listed
}

// Withdraw implements [supervisor.Lister]. Once a successor has listed, the
// entries are the successor's.
func (t *Turn) Withdraw() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.retired {
		return
	}
	t.listed, t.withdrawn = false, true
	switch {
	case t.staged:
	case t.next != nil && t.next.ready():
	default:
		t.lists.Withdraw()
	}
}
