package relay

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/hermes-host/hermes-host/host/session"
)

// link is the relay's side of one server, or of one client's own session with
// it: the calls in flight there, and what clients want to hear from it. It
// outlives the sessions.
type link struct {
	server string
	owner  Client // whose session it is; nil: all clients'
	bound  Server // looks after the owner's session; set before it connects

	mu      sync.Mutex
	calls   map[*call]struct{}
	byID    map[uint64]*call             // by the id of the request upstream
	byToken map[uint64]*call             // by our progress token
	subs    map[string]map[string]Client // subscribers by URI and client id
	listens map[string]*listening        // subscriptions at servers of 2026-07-28, by URI
	asking  map[*question]struct{}       // open questions to clients
	told    session.Session              // the one that has been told what follows
	ready   session.Session              // the one that has been told all of it
	at      level                        // the log level that it was told; 0 is none

	version atomic.Pointer[string] // of the latest session that a request has met

	refusing   atomic.Int32 // refusals of questions that are being sent
	releveling atomic.Bool  // a change of the level is about to be looked at

	// turn is held while the server's subscriptions or log level are changed,
	// so that what the server was told last is what holds.
	// told and at are changed by its holder alone.
	turn chan struct{}
}

// place names a link: a server's, or that of a client's own session with it.
type place struct{ server, client string }

// link returns the link of a server, or of a client's own session with it if
// owner is not nil.
func (r *Relay) link(server string, owner Client) *link {
	at := place{server: server}
	if owner != nil {
		at.client = owner.ID()
	}
	r.mu.RLock()
	l := r.links[at]
	r.mu.RUnlock()
	if l != nil {
		return l
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if l = r.links[at]; l == nil {
		l = &link{
			server: server, owner: owner,
			calls: map[*call]struct{}{}, byID: map[uint64]*call{}, byToken: map[uint64]*call{},
			subs: map[string]map[string]Client{}, listens: map[string]*listening{}, asking: map[*question]struct{}{}, turn: make(chan struct{}, 1),
		}
		r.links[at] = l
	}
	return l
}

// take waits for the link's turn; give ends it.
func (l *link) take(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *link) give() { <-l.turn }

// call is one request of a client, in flight at a server.
type call struct {
	link *link
	ctx  context.Context
	// front is the client's request that the call serves now: the only one
	// there is, or the latest of those that a bridged call takes.
	front  atomic.Pointer[front]
	bridge *bridge // not nil if the client can only be asked by results

	// Guarded by link.mu.
	id        uint64
	ours      uint64 // progress token at the server; 0 is none
	ended     bool
	questions map[*question]struct{} // open ones
}

// front is a client's request as far as what comes from the server needs it.
type front struct {
	client Client
	stream Stream
	level  level           // the lowest log level that it wants on its stream; 0: the client's
	theirs json.RawMessage // its progress token; nil is none
}

func (c *call) client() Client { return c.front.Load().client }

// use makes a request the one that the call serves.
func (c *call) use(r *request) {
	f := &front{client: r.Client, stream: r.Stream, level: r.level}
	if r.token.To > 0 {
		f.theirs = r.token.Of(r.raw)
	}
	c.front.Store(f)
}

// enter makes the call known to what comes from the server. It returns a
// progress token of ours if one is wanted.
func (c *call) enter(tokens *atomic.Uint64, progress bool) json.RawMessage {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	c.ended = false
	l.calls[c] = struct{}{}
	if !progress {
		return nil
	}
	c.ours = tokens.Add(1)
	l.byToken[c.ours] = c
	return number(c.ours)
}

// started is told the id upstream, again for a replay.
func (c *call) started(id uint64) {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID[c.id] == c {
		delete(l.byID, c.id)
	}
	c.id = id
	l.byID[id] = c
}

// waits reports whether it is a client that the call waits for, and not the
// server.
func (c *call) waits() bool {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(c.questions) > 0
}

// leave ends the call: whatever the server still says about it goes nowhere,
// and open questions are withdrawn.
func (c *call) leave() {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, c)
	if l.byID[c.id] == c {
		delete(l.byID, c.id)
	}
	delete(l.byToken, c.ours)
	c.ended, c.id = true, 0
	for o := range c.questions {
		o.cancel()
	}
}

// related returns the call on whose stream something came, nil if that is not
// known.
func (l *link) related(id uint64) *call {
	if id == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byID[id]
}

// only returns a call of the one client that has calls in flight, nil if there
// are several clients or none. Calls that wait for a session don't count. Of
// several calls it returns the latest.
func (l *link) only() *call {
	l.mu.Lock()
	defer l.mu.Unlock()
	var best *call
	for c := range l.calls {
		switch {
		case c.id == 0:
		case best == nil:
			best = c
		case best.client().ID() != c.client().ID():
			return nil
		case c.id > best.id:
			best = c
		}
	}
	return best
}
