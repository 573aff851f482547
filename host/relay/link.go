package relay

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/hermes-host/hermes-host/host/session"
)

// link is the relay's side of one server: the calls in flight there, and what
// clients want to hear from it. It outlives the server's sessions.
type link struct {
	server string

	mu      sync.Mutex
	calls   map[*call]struct{}
	byID    map[uint64]*call             // by the id of the request upstream
	byToken map[uint64]*call             // by our progress token
	subs    map[string]map[string]Client // subscribers by URI and client id
	asking  map[*question]struct{}       // open questions to clients
	told    session.Session              // the one that has been told what follows
	at      level                        // the log level that it was told; 0 is none

	refusing   atomic.Int32 // refusals of questions that are being sent
	releveling atomic.Bool  // a change of the level is about to be looked at

	// turn is held while the server's subscriptions or log level are changed,
	// so that what the server was told last is what holds.
	// told and at are changed by its holder alone.
	turn chan struct{}
}

func (r *Relay) link(server string) *link {
	r.mu.RLock()
	l := r.links[server]
	r.mu.RUnlock()
	if l != nil {
		return l
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if l = r.links[server]; l == nil {
		l = &link{
			server: server, calls: map[*call]struct{}{}, byID: map[uint64]*call{}, byToken: map[uint64]*call{},
			subs: map[string]map[string]Client{}, asking: map[*question]struct{}{}, turn: make(chan struct{}, 1),
		}
		r.links[server] = l
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
	link   *link
	client Client
	stream Stream
	ctx    context.Context
	level  level // the lowest log level that it wants on its stream; 0: the client's

	// Guarded by link.mu.
	id        uint64
	ours      uint64          // progress token at the server; 0 is none
	theirs    json.RawMessage // the client's
	ended     bool
	questions map[*question]struct{} // open ones
}

// enter makes the call known to what comes from the server.
func (c *call) enter() {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[c] = struct{}{}
	if c.ours != 0 {
		l.byToken[c.ours] = c
	}
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
	c.ended = true
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
		case best.client.ID() != c.client.ID():
			return nil
		case c.id > best.id:
			best = c
		}
	}
	return best
}
