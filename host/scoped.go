package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

// scopes holds the sessions that clients have for themselves: those with
// servers whose configuration says session = "client". Each has a supervisor of
// its own, from the client's first call until the client leaves, the session
// has been idle for long enough, or it gives way to another client's.
type scopes struct {
	// scope returns the relay's side of a client's own session.
	scope func(server string, c relay.Client) relay.Scope
	// changed is told that a client's session says that lists are different.
	changed func(server string, which supervisor.Lists)
	log     hclog.Logger
	life    context.Context // ends when all sessions are to end
	running *sync.WaitGroup

	mu     sync.Mutex
	last   uint64                     // the number of the latest session
	by     map[string]map[string]*own // by server and client id
	all    map[*own]bool              // also those that only finish their calls
	closed bool
}

// An ownBuilder makes the supervisor of a client's session, with the handler and
// the lister that are given. It is called under the lock of the scopes, and must
// not block.
type ownBuilder func(*own, session.Handler, supervisor.Lister) ownSettings

// ownSettings is what an ownBuilder returns.
type ownSettings struct {
	sup         *supervisor.Supervisor
	of          *member // whose configuration it has, and who counts its calls
	idleTimeout time.Duration
	maxSessions int
}

// settling protects a session that was looked up from ending before the call
// that wanted it has begun.
const settling = time.Second

var (
	errClientLeft = errors.New("its client is gone")
	errOwnIdle    = errors.New("its client has not used it for long")
	errGaveWay    = errors.New("it made room for another client's")
)

// get returns the session of a client, and makes it if there is none. It does
// not block. False: there will be no more sessions.
func (p *scopes) get(server string, c relay.Client, build ownBuilder) (relay.Server, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.by[server][c.ID()]; o != nil {
		o.touch()
		return o, true
	}
	if p.closed {
		return nil, false
	}
	p.last++
	o := &own{
		p: p, server: server, client: c.ID(), tag: relay.Tag(c), name: nameOf(c), scope: p.scope(server, c), base: p.last << 40,
		since: time.Now(), ended: make(chan struct{}, 1),
	}
	o.ownSettings = build(o, numbered{o.scope.Handler(o), o.base}, &ownLists{o: o})
	if len(p.by[server]) >= o.maxSessions && !p.makeRoom(server) {
		return crowded{server, o.maxSessions}, true
	}
	if p.by == nil {
		p.by = map[string]map[string]*own{}
	}
	if p.by[server] == nil {
		p.by[server] = map[string]*own{}
	}
	p.by[server][o.client] = o
	if p.all == nil {
		p.all = map[*own]bool{}
	}
	p.all[o] = true
	o.scope.Bind(o)
	ctx, cancel := context.WithCancelCause(p.life)
	o.cancel = cancel
	o.timer = time.AfterFunc(o.idleTimeout, o.expire)
	p.running.Go(func() {
		if err := o.sup.Run(ctx); err != nil && ctx.Err() == nil {
			p.log.Error("the supervisor of a client's session has ended", "server", server, "error", err)
		}
		p.over(o)
	})
	return o, true
}

// makeRoom ends the session that has been idle the longest. The caller holds
// p.mu.
func (p *scopes) makeRoom(server string) bool {
	var oldest *own
	since := time.Now().Add(-settling)
	for _, o := range p.by[server] {
		if at, idle := o.idleSince(); idle && !at.After(since) {
			oldest, since = o, at
		}
	}
	if oldest == nil {
		return false
	}
	p.end(oldest, errGaveWay)
	return true
}

// end takes a session away and lets its supervisor end. The caller holds p.mu.
func (p *scopes) end(o *own, why error) {
	delete(p.by[o.server], o.client)
	if len(p.by[o.server]) == 0 {
		delete(p.by, o.server)
	}
	o.scope.Unbind(o)
	o.timer.Stop()
	o.cancel(why)
}

// left ends all sessions of a client.
func (p *scopes) left(c relay.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, all := range p.by {
		if o := all[c.ID()]; o != nil {
			p.end(o, errClientLeft)
		}
	}
}

// drop takes all sessions with a server away but those with the configuration
// that now is valid, since the server is gone (now is nil) or its configuration
// is another. Calls in flight, and those that have just looked a session up, may
// go on for a while.
func (p *scopes) drop(server string, now *member, patience time.Duration, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for client, o := range p.by[server] {
		if now != nil && o.of == now {
			continue
		}
		delete(p.by[server], client)
		o.scope.Unbind(o)
		o.timer.Stop()
		if p.closed { // all end
			continue
		}
		p.running.Go(func() {
			o.finish(p.life, patience)
			o.cancel(why)
		})
	}
	if len(p.by[server]) == 0 {
		delete(p.by, server)
	}
}

// order gives an operator's order to all sessions with a server.
func (p *scopes) order(server string, give func(*supervisor.Supervisor)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.by[server] {
		give(o.sup)
	}
}

// close lets no more sessions begin. Those that there are end with life.
func (p *scopes) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, all := range p.by {
		for _, o := range all {
			o.timer.Stop()
		}
	}
}

// own is one client's session with one server. It implements [relay.Server].
type own struct {
	ownSettings
	p              *scopes
	server, client string
	tag, name      string // the session's id for operators, and what the client calls itself
	scope          relay.Scope
	// base is added to the ids of calls, since the relay knows the calls of a
	// client by them, over several sessions.
	base   uint64
	cancel context.CancelCauseFunc
	timer  *time.Timer

	mu     sync.Mutex
	calls  int             // and those that wait for the session
	since  time.Time       // when it was used last
	ended  chan struct{}   // has room for one, which is there when the last call has ended
	listed session.Session // the one whose lists have been asked for
}

var _ relay.Server = (*own)(nil)

// Session implements [relay.Server].
func (o *own) Session() session.Session { return o.sup.Session() }

// Await implements [relay.Server].
func (o *own) Await(ctx context.Context) error {
	defer o.use()()
	return o.sup.Await(ctx)
}

// Call implements [relay.Server].
func (o *own) Call(ctx context.Context, req session.Request, opt supervisor.CallOptions) (session.Reply, error) {
	defer o.use()()
	c := &o.of.own
	c.calls.Add(1)
	c.inFlight.Add(1)
	defer c.inFlight.Add(-1)
	if started := req.Started; started != nil {
		req.Started = func(id uint64) { started(o.base + id) }
	}
	reply, err := o.sup.Call(ctx, req, opt)
	if err != nil && ctx.Err() == nil {
		c.failed.Add(1)
	}
	return reply, err
}

// use says that the session is in use until the function that it returns is
// called.
func (o *own) use() (done func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.since = time.Now()
		if o.calls--; o.calls == 0 {
			select {
			case o.ended <- struct{}{}:
			default:
			}
		}
	}
}

func (o *own) touch() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.since = time.Now()
}

// idleSince returns since when the session is of no use to its client, and
// false if it is of use.
func (o *own) idleSince() (time.Time, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.since, o.calls == 0 && !o.scope.Subscribed()
}

// finish returns when a session that is looked up no more has no calls and will
// get none, when patience is over, or when ctx ends.
func (o *own) finish(ctx context.Context, patience time.Duration) {
	over, settled := time.NewTimer(patience), time.NewTimer(0)
	defer over.Stop()
	defer settled.Stop()
	for {
		select {
		case <-o.ended:
		case <-settled.C:
		case <-over.C:
			return
		case <-ctx.Done():
			return
		}
		o.mu.Lock()
		calls, left := o.calls, settling-time.Since(o.since)
		o.mu.Unlock()
		switch {
		case calls > 0:
		case left > 0:
			settled.Reset(left)
		default:
			return
		}
	}
}

// expire is the timer's function: it ends the session if it has been idle for
// long enough, else it looks again when it could be.
func (o *own) expire() {
	o.p.mu.Lock()
	defer o.p.mu.Unlock()
	if o.p.closed || o.p.by[o.server][o.client] != o {
		return
	}
	since, idle := o.idleSince()
	left := o.idleTimeout - time.Since(since)
	if !idle {
		left = o.idleTimeout
	}
	if left > 0 {
		o.timer.Reset(left)
		return
	}
	o.p.end(o, errOwnIdle)
}

// ownLists is the lister of a client's session. The lists that clients see are
// those of the shared session, which is asked to look again when a client's
// session says that lists have changed.
type ownLists struct{ o *own }

// List implements [supervisor.Lister].
func (l *ownLists) List(_ context.Context, s session.Session, which supervisor.Lists) error {
	l.o.scope.Introduce(s)
	l.o.mu.Lock()
	again := l.o.listed == s
	l.o.listed = s
	l.o.mu.Unlock()
	if again && l.o.p.changed != nil {
		l.o.p.changed(l.o.server, which)
	}
	return nil
}

// Withdraw implements [supervisor.Lister].
func (*ownLists) Withdraw() {}

// crowded stands for a session for which there is no room.
type crowded struct {
	server string
	limit  int
}

func (crowded) Session() session.Session { return nil }

func (crowded) Await(context.Context) error { return nil }

func (c crowded) Call(context.Context, session.Request, supervisor.CallOptions) (session.Reply, error) {
	return session.Reply{}, &relay.BusyError{Message: fmt.Sprintf(
		"server %q has sessions for %d clients, and all are in use; try again later, or raise its max_sessions", c.server, c.limit)}
}
