package catalog

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hermes-host/hermes-host/host/session"
)

// An Endpoint presents a selection of servers under a naming.
type Endpoint struct {
	c         *Catalog
	server    string // the one server, unless aggregate or a selection
	aggregate bool
	selected  bool // a selection of several servers
	selection atomic.Pointer[selection]

	mu   sync.Mutex
	view atomic.Pointer[pinned]
}

// pinned is a view with the state that it is known to be good for.
type pinned struct {
	state *state
	view  *View
}

// Server returns the name of the one server of the endpoint, "" for those of
// several servers.
func (e *Endpoint) Server() string { return e.server }

// Includes reports whether the endpoint offers a server, if that is configured.
func (e *Endpoint) Includes(server string) bool {
	if s := e.selection.Load(); s != nil {
		return slices.Contains(s.Servers, server)
	}
	return e.aggregate || e.server == server
}

// View returns the present view. It is built on the first demand after a
// change, so that a hundred changes that nobody looked at cost one.
func (e *Endpoint) View() *View {
	now := e.c.state.Load()
	if p := e.view.Load(); p != nil && p.state == now {
		return p.view
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now = e.c.state.Load()
	offers := now.offers
	naming := Prefixed
	chosen := e.selection.Load()
	switch {
	case e.aggregate:
	case chosen != nil:
		offers = slices.DeleteFunc(slices.Clone(offers), func(o *offer) bool { return !e.Includes(o.cfg.Name) })
	default:
		offers, naming = nil, Own
		if o := now.offer(e.server); o != nil {
			offers = []*offer{o}
		}
	}
	p := e.view.Load()
	if p == nil || p.view.selection != chosen || !slices.Equal(p.view.offers, offers) {
		p = &pinned{view: build(offers, naming, chosen)}
	}
	e.view.Store(&pinned{state: now, view: p.view})
	return p.view
}

// Settle waits until each server of the endpoint has been listed or given up
// once, so that a client that comes right after the start gets a list worth
// having, or until ctx ends.
func (e *Endpoint) Settle(ctx context.Context) {
	s := e.c.state.Load()
	for name, h := range s.handles {
		if !e.Includes(name) {
			continue
		}
		select {
		case <-h.settled:
		case <-ctx.Done():
			return
		}
	}
}

// A View is what an endpoint offers at one moment. It is immutable.
type View struct {
	naming    Naming
	selection *selection // nil: all of the offers
	offers    []*offer
	tools     map[string]*Entry
	prompts   map[string]*Entry
	resources map[string]*Entry
	templates []*Entry
	shadowed  [kinds][]*Entry // not served, since another server has the same URI
	lists     [kinds]list

	idle   sync.Once
	idlers []Unmatched // of the selection; once idle is done
}

// list is one list of a view: the entries of servers that are there.
type list struct {
	entries []*Entry
	outer   []string
	sum     uint64
	eras    [2]struct {
		once  sync.Once
		pages *pages
	}
}

// build makes a view of a selection of offers, in configuration order.
func build(offers []*offer, naming Naming, chosen *selection) *View {
	v := &View{naming: naming, offers: offers, selection: chosen}
	v.tools = v.named(Tools)
	v.prompts = v.named(Prompts)
	v.resources, _ = v.located(Resources)
	_, v.templates = v.located(Templates)
	for kind := range kinds {
		l := &v.lists[kind]
		var h maphash.Hash
		h.SetSeed(sumSeed)
		for i, e := range l.entries {
			h.WriteString(l.outer[i])
			maphash.WriteComparable(&h, e.sum)
			h.WriteString(e.says)
		}
		if naming == Own && len(offers) == 1 {
			for _, m := range offers[0].heard[kind].extra {
				h.WriteString(m.name)
				h.Write(m.raw)
			}
		}
		l.sum = h.Sum64()
	}
	return v
}

// named gives tools or prompts their outer names, and lists them.
func (v *View) named(kind Kind) map[string]*Entry {
	var all []*Entry
	var live []bool
	for _, o := range v.offers {
		for _, e := range o.entries[kind] {
			all, live = append(all, e), append(live, o.live)
		}
	}
	index := make(map[string]*Entry, len(all))
	l := &v.lists[kind]
	for i, name := range assign(all, v.naming) {
		if name == "" {
			v.shadowed[kind] = append(v.shadowed[kind], all[i])
			continue
		}
		if !v.selection.admits(kind, name) {
			continue
		}
		index[name] = all[i]
		if live[i] {
			l.entries, l.outer = append(l.entries, all[i]), append(l.outer, name)
		}
	}
	return index
}

// located indexes resources or templates and returns them in the order in
// which they count. A URI belongs to the first server in configuration order
// that claims it; servers that are there go before those that are not.
func (v *View) located(kind Kind) (index map[string]*Entry, order []*Entry) {
	index = map[string]*Entry{}
	l := &v.lists[kind]
	for _, live := range []bool{true, false} {
		for _, o := range v.offers {
			if o.live != live {
				continue
			}
			for _, e := range o.entries[kind] {
				if !v.selection.admits(kind, e.Name) {
					continue
				}
				if index[e.Name] != nil {
					v.shadowed[kind] = append(v.shadowed[kind], e)
					continue
				}
				index[e.Name] = e
				order = append(order, e)
				if live {
					l.entries, l.outer = append(l.entries, e), append(l.outer, e.Name)
				}
			}
		}
	}
	return index, order
}

// A Target is where a name leads.
type Target struct {
	Server     string
	Name       string // the server's own name for it
	Idempotent bool   // see Entry
}

// Tool finds a tool by its outer name.
func (v *View) Tool(outer string) (Target, bool) { return v.find(Tools, v.tools, outer) }

// InputSchema returns the input schema of the tool with that outer name as its
// server sent it, nil if no list has shown such a tool.
func (v *View) InputSchema(outer string) json.RawMessage {
	if e := v.tools[outer]; e != nil {
		return e.schema
	}
	return nil
}

// Prompt finds a prompt by its outer name.
func (v *View) Prompt(outer string) (Target, bool) { return v.find(Prompts, v.prompts, outer) }

func (v *View) find(kind Kind, index map[string]*Entry, outer string) (Target, bool) {
	if e := index[outer]; e != nil {
		return Target{e.Server, e.Name, e.Idempotent}, true
	}
	// A name that no list has shown is the server's to judge where it can
	// only be that server's: on its own endpoint (some servers have tools
	// that they don't list), and in the aggregate while the server has not
	// been listed yet, since a client may know the name from before.
	if !v.selection.admits(kind, outer) {
		return Target{}, false
	}
	for _, o := range v.offers {
		base := outer
		if v.naming == Prefixed {
			if o.listed || o.cfg.hashed || o.cfg.prefix == "" && len(v.offers) > 1 {
				continue
			}
			if o.cfg.prefix != "" {
				var ok bool
				if base, ok = strings.CutPrefix(outer, o.cfg.prefix+separator); !ok {
					continue
				}
			}
		}
		if name, ok := o.cfg.filters[kind].original(base); ok && name != "" {
			return Target{Server: o.cfg.Name, Name: name}, true
		}
	}
	return Target{}, false
}

// Resource finds the server of a URI: that of a listed resource, else that of
// a template that it matches, else the only server that has resources at all.
func (v *View) Resource(uri string) (Target, bool) {
	if !v.selection.admits(Resources, uri) {
		return Target{}, false
	}
	if e := v.resources[uri]; e != nil {
		return Target{Server: e.Server, Name: uri, Idempotent: true}, true
	}
	for _, e := range v.templates {
		if e.template.matches(uri) && !v.denies(e.Server, uri) {
			return Target{Server: e.Server, Name: uri, Idempotent: true}, true
		}
	}
	var only *offer
	for _, o := range v.offers {
		if v.naming == Own || o.listed && capable(o.info, "resources") {
			if only != nil {
				return Target{}, false
			}
			only = o
		}
	}
	if only == nil || !only.cfg.filters[Resources].admits(uri) {
		return Target{}, false
	}
	return Target{Server: only.cfg.Name, Name: uri, Idempotent: true}, true
}

// Template finds the server of a URI template, as a completion's reference
// gives it, or of a URI.
func (v *View) Template(uri string) (Target, bool) {
	for _, e := range v.templates {
		if e.Name == uri {
			return Target{Server: e.Server, Name: uri, Idempotent: true}, true
		}
	}
	return v.Resource(uri)
}

func (v *View) denies(server, uri string) bool {
	for _, o := range v.offers {
		if o.cfg.Name == server {
			return o.cfg.filters[Resources].denies(uri)
		}
	}
	return true
}

// Servers returns the names of the view's servers in configuration order.
func (v *View) Servers() []string {
	names := make([]string, len(v.offers))
	for i, o := range v.offers {
		names[i] = o.cfg.Name
	}
	return names
}

// Infos yields what each server that is there said at initialisation.
func (v *View) Infos(yield func(server string, info session.Info) bool) {
	for _, o := range v.offers {
		if o.live && !yield(o.cfg.Name, o.info) {
			return
		}
	}
}

// Prefix returns what the names of a server's tools and prompts begin with here,
// "" if they are its own.
func (v *View) Prefix(server string) string {
	for _, o := range v.offers {
		if o.cfg.Name == server && o.cfg.prefix != "" && v.naming == Prefixed {
			return o.cfg.prefix + separator
		}
	}
	return ""
}
