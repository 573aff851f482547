// Package catalog knows what all servers offer, under which names clients see
// it, and where a name leads.
//
// Each server's [Handle] fetches the server's lists when its supervisor says
// so. What comes is checked entry by entry (an entry that clients would choke
// on is left out, its siblings stay), filtered and renamed by configuration,
// and published in one step. An [Endpoint] presents a selection of the servers
// under a naming; its [View] is immutable, and ready-made JSON pages hang on
// it, so that listing a thousand tools costs a lookup.
//
// Entries stay the bytes that the server sent; only a changed name is
// replaced in them.
//
// Names are assigned so that they do not depend on which servers happen to be
// up, nor on the order in which they came: see name.go.
package catalog

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hermes-host/hermes-host/host/session"
)

// A Server is what the configuration says about a server's entries.
type Server struct {
	Name string
	// Prefix goes before the names of tools and prompts in the aggregate,
	// with "__" between; "" leaves names as they are. Nil means Name.
	Prefix *string
	// Tools and Prompts go by name, Resources by URI and URI template.
	Tools, Resources, Prompts Filter
}

// Catalog holds what all servers offer. All methods may be called
// concurrently.
type Catalog struct {
	mu    sync.Mutex // held to change what follows, never while a server is asked
	state atomic.Pointer[state]
	subs  map[*Subscription]struct{}
}

// state is everything at one moment. It is immutable.
type state struct {
	offers    []*offer // in configuration order
	handles   map[string]*Handle
	endpoints map[string]*Endpoint
}

// offer is what one server offers under its configuration. It is immutable.
type offer struct {
	cfg     *config
	heard   [kinds]heard // as the server sent it
	entries [kinds][]*Entry
	info    session.Info
	live    bool // between a List and a Withdraw
	listed  bool // a List has succeeded at some time

	unmatched []Unmatched // what of cfg's filters applies to nothing in heard
}

// New returns a catalog without servers.
func New() *Catalog {
	c := &Catalog{subs: map[*Subscription]struct{}{}}
	c.state.Store(&state{handles: map[string]*Handle{}, endpoints: map[string]*Endpoint{"": {c: c, aggregate: true}}})
	return c
}

// SetServers replaces the set of servers, in the order of the configuration,
// in one step that subscribers hear of once. What a server of the same name
// has already told is kept and goes through the new filters. The error joins
// all that is wrong with the arguments; nothing has changed then.
func (c *Catalog) SetServers(servers []Server) error {
	cfgs, err := compile(servers)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.state.Load()
	next := &state{
		handles:   make(map[string]*Handle, len(cfgs)),
		endpoints: map[string]*Endpoint{"": old.endpoints[""]},
	}
	for name, e := range old.endpoints {
		if e.selected {
			next.endpoints[name] = e
		}
	}
	for _, cfg := range cfgs {
		o := &offer{}
		if was := old.offer(cfg.Name); was != nil {
			*o = *was
		}
		o.configure(cfg)
		next.offers = append(next.offers, o)
		if next.handles[cfg.Name] = old.handles[cfg.Name]; next.handles[cfg.Name] == nil {
			next.handles[cfg.Name] = &Handle{c: c, server: cfg.Name, settled: make(chan struct{})}
		}
		e := old.endpoints[cfg.Name]
		if e == nil || e.selected { // a server's name goes before
			e = &Endpoint{c: c, server: cfg.Name}
		}
		next.endpoints[cfg.Name] = e
	}
	c.publish(next)
	return nil
}

// Handle returns a server's handle, by which its supervisor lists it. The same
// handle stays good over SetServers as long as the server is in the set.
func (c *Catalog) Handle(server string) (*Handle, bool) {
	h, ok := c.state.Load().handles[server]
	return h, ok
}

// Endpoint returns the endpoint of a server's name or of a selection's, or the
// aggregate of all servers for "".
func (c *Catalog) Endpoint(name string) (*Endpoint, bool) {
	e, ok := c.state.Load().endpoints[name]
	return e, ok
}

// Servers returns the names of all servers in configuration order.
func (c *Catalog) Servers() []string {
	s := c.state.Load()
	names := make([]string, len(s.offers))
	for i, o := range s.offers {
		names[i] = o.cfg.Name
	}
	return names
}

// Info returns what a server said at the initialisation of the session that
// was listed last. It stays known while the server is parked.
func (c *Catalog) Info(server string) (session.Info, bool) {
	o := c.state.Load().offer(server)
	if o == nil || !o.listed {
		return session.Info{}, false
	}
	return o.info, true
}

// update changes one server's offer. It does nothing if the server is not in
// the set, or edit returns false.
func (c *Catalog) update(server string, edit func(o *offer) bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.state.Load()
	i := slices.IndexFunc(old.offers, func(o *offer) bool { return o.cfg.Name == server })
	if i < 0 {
		return false
	}
	o := *old.offers[i]
	if !edit(&o) {
		return true
	}
	next := *old
	next.offers = slices.Clone(old.offers)
	next.offers[i] = &o
	c.publish(&next)
	return true
}

// publish makes next the state. The caller holds c.mu.
func (c *Catalog) publish(next *state) {
	c.state.Store(next)
	for sub := range c.subs {
		sub.wake()
	}
}

func (s *state) offer(server string) *offer {
	for _, o := range s.offers {
		if o.cfg.Name == server {
			return o
		}
	}
	return nil
}

// config is a Server made ready for use.
type config struct {
	Server
	prefix  string
	hashed  bool     // every name gets a hash: the prefix is ambiguous
	others  []string // prefixes of others, with "__", that an unprefixed name must not begin with
	filters [kinds]*filter
}

func compile(servers []Server) ([]*config, error) {
	var errs []error
	cfgs := make([]*config, 0, len(servers))
	seen := map[string]bool{}
	for _, s := range servers {
		if s.Name == "" || seen[s.Name] {
			errs = append(errs, fmt.Errorf("server %q: the name is empty or used twice", s.Name))
			continue
		}
		seen[s.Name] = true
		cfg := &config{Server: s, prefix: s.Name}
		if s.Prefix != nil {
			cfg.prefix = *s.Prefix
		}
		for kind, f := range map[Kind]Filter{Tools: s.Tools, Resources: s.Resources, Templates: s.Resources, Prompts: s.Prompts} {
			compiled, err := f.compile()
			if err != nil && kind != Templates {
				errs = append(errs, fmt.Errorf("server %q: %s: %w", s.Name, kind.member(), err))
			}
			cfg.filters[kind] = compiled
		}
		cfgs = append(cfgs, cfg)
	}
	separate(cfgs)
	return cfgs, errors.Join(errs...)
}
