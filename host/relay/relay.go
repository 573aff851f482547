// Package relay carries what clients and servers say to each other.
//
// A client's request comes to an [Endpoint], which finds the server in the
// catalog, puts the server's own names and a progress token of ours into the
// raw params, and calls the server's supervisor. What a server says on its own
// comes to the [Relay.Handler] of that server, on the session's reader: there
// it is only looked at, matched to the call or the clients that it concerns,
// and queued. Anything that waits (a question to a client, a refresh of the
// lists, a change of the log level) runs in a goroutine that the relay owns.
//
// Payloads stay raw: results pass as the bytes that came, params are edited in
// place (internal/rawjson).
//
// What belongs to one call (progress, questions) reaches that call's stream
// and no other; what belongs to none reaches the clients that asked for such
// things. Ids and tokens of clients never reach a server, so they can't mix.
package relay

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/host/catalog"
)

// Config is what a relay works with. Catalog and Lookup are required.
type Config struct {
	Catalog *catalog.Catalog
	// Lookup returns the supervisor that looks after a server's session. The
	// client is nil for the session that clients share; otherwise the server
	// is one that Private names, and the session is the client's own, made if
	// there is none. False: there is no such server. It must not block.
	Lookup func(server string, c Client) (Server, bool)
	// Private says that each client session has a session of its own with a
	// server. Requests of protocol 2026-07-28 belong to no session: they use
	// the shared one all the same. Nil: no server is private.
	Private func(server string) bool
	// Left is told of clients that are gone, whose own sessions can end. Nil:
	// nobody cares. It must not block.
	Left   func(c Client)
	Logger hclog.Logger // nil: no logging
	// ServerInfo is the MCP Implementation that the aggregate calls itself.
	ServerInfo json.RawMessage
	// Redact returns a text about a server without the secrets of its
	// configuration; nil: texts stay as they are. Errors of servers and plugins
	// go through it before clients see them.
	Redact func(server, text string) string
	// FirstList is how long a list waits for servers that have not been
	// listed since the host started. 0: 2 s; negative: not at all.
	FirstList time.Duration
	// Quiet is how long changes of the lists are collected before clients are
	// told. 0: 50 ms.
	Quiet time.Duration
}

// Relay joins endpoints and servers. All methods may be called concurrently.
type Relay struct {
	cfg    Config
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	first  context.Context // ends when lists no longer wait
	tokens atomic.Uint64   // the last progress token of ours

	mu        sync.RWMutex
	closed    bool
	links     map[place]*link
	endpoints map[string]*endpoint

	suspended suspended
}

// New returns a relay at work. Close ends it.
func New(cfg Config) *Relay {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.ServerInfo == nil {
		cfg.ServerInfo = json.RawMessage(`{"name":"hermes-host","version":"0"}`)
	}
	if cfg.Redact == nil {
		cfg.Redact = func(_, text string) string { return text }
	}
	if cfg.FirstList == 0 {
		cfg.FirstList = 2 * time.Second
	}
	if cfg.Quiet == 0 {
		cfg.Quiet = 50 * time.Millisecond
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Relay{
		cfg: cfg, ctx: ctx, cancel: cancel,
		links: map[place]*link{}, endpoints: map[string]*endpoint{},
	}
	var stop context.CancelFunc
	r.first, stop = context.WithTimeout(ctx, max(cfg.FirstList, 0))
	context.AfterFunc(r.first, stop)
	sub := cfg.Catalog.Subscribe()
	r.wg.Go(func() { r.announce(sub) })
	return r
}

// Close ends all that the relay does in the background and waits for it.
// Requests that are being handled are the gateway's to end.
func (r *Relay) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.suspended.clear()
	r.wg.Wait()
}

// Endpoint returns the endpoint of that name: a server's, a selection's, or ""
// for the aggregate of all.
func (r *Relay) Endpoint(name string) (Endpoint, bool) {
	cat, ok := r.cfg.Catalog.Endpoint(name)
	if !ok {
		return nil, false
	}
	r.mu.RLock()
	e := r.endpoints[name]
	r.mu.RUnlock()
	if e != nil && e.cat == cat {
		return e, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e = r.endpoints[name]; e == nil || e.cat != cat {
		e = &endpoint{r: r, server: cat.Server(), cat: cat, clients: map[string]*joined{}}
		r.endpoints[name] = e
	}
	return e, true
}

// background runs f in a goroutine that Close waits for, under a context that
// ends with the relay. It reports false if the relay is closed.
func (r *Relay) background(f func(ctx context.Context)) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.closed {
		return false
	}
	r.wg.Go(func() { f(r.ctx) })
	return true
}

// announce tells clients what has changed in the lists, once per burst.
func (r *Relay) announce(sub *catalog.Subscription) {
	defer sub.Close()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-sub.Ready():
		}
		select {
		case <-r.ctx.Done():
			return
		case <-time.After(r.cfg.Quiet):
		}
		for _, change := range sub.Changes() {
			r.mu.RLock()
			e := r.endpoints[change.Endpoint]
			r.mu.RUnlock()
			if e != nil {
				e.tell(change)
			}
		}
	}
}
