package host

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/hermes-host/hermes-host/host/admin"
	"github.com/hermes-host/hermes-host/host/config"
)

// This file says what is different in another configuration. Settings are
// named, their values never are.

// A plan is what a reload is about to do.
type plan struct {
	file    *config.File
	cfg     *config.Config
	changes admin.Changes

	removed  []*member
	added    []config.Server
	replaced []config.Server
	kept     map[*member]config.Server // their sessions stay, or go on coming up
	dropped  []string                  // servers whose succession ends
	waiting  []*succession             // that go on, as changes.Waiting has them
	plugins  bool                      // the plugin blocks are different

	endpoints []string // that are gone
}

// compare makes a plan. The caller holds h.mu.
func (h *Host) compare(file *config.File, cfg *config.Config) *plan {
	p := &plan{file: file, cfg: cfg, kept: map[*member]config.Server{}}
	c := &p.changes
	kinds := otherPlugins(h.cfg.Plugins, cfg.Plugins)
	p.plugins = len(kinds) > 0
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		c.Live = append(c.Live, "plugin "+kind)
	}
	var before, after []string // servers that stay
	stay := map[string]bool{}
	for _, s := range cfg.Servers {
		m := h.members[s.Name]
		if m == nil {
			c.Added = append(c.Added, s.Name)
			p.added = append(p.added, s)
			continue
		}
		stay[s.Name] = true
		after = append(after, s.Name)
		if n := h.pending[s.Name]; n != nil {
			if settings := n.m.differs(s, cfg); listsOnly(settings) {
				c.Waiting = append(c.Waiting, admin.Change{Server: s.Name, Settings: n.settings})
				p.waiting = append(p.waiting, n)
				if len(settings) > 0 {
					c.Updated = append(c.Updated, admin.Change{Server: s.Name, Settings: settings})
				}
				p.kept[n.m] = s
				continue
			}
			p.dropped = append(p.dropped, s.Name)
		}
		settings := m.differs(s, cfg)
		switch change := (admin.Change{Server: s.Name, Settings: settings}); {
		case !listsOnly(settings):
			c.Replaced = append(c.Replaced, change)
			p.replaced = append(p.replaced, s)
			continue
		case len(settings) > 0:
			c.Updated = append(c.Updated, change)
		}
		if h.pending[s.Name] != nil {
			c.Dropped = append(c.Dropped, s.Name)
		}
		p.kept[m] = s // its place in the file may be another
	}
	for _, s := range h.order {
		if stay[s.Name] {
			before = append(before, s.Name)
			continue
		}
		c.Removed = append(c.Removed, s.Name)
		p.removed = append(p.removed, h.members[s.Name])
		if h.pending[s.Name] != nil {
			p.dropped = append(p.dropped, s.Name)
		}
	}
	c.Order = !slices.Equal(before, after)
	for _, name := range otherEndpoints(h.cfg.Endpoints, cfg.Endpoints) {
		c.Live = append(c.Live, "endpoint "+name)
	}
	for _, e := range h.cfg.Endpoints {
		if !slices.ContainsFunc(cfg.Endpoints, func(o config.Endpoint) bool { return o.Name == e.Name }) {
			p.endpoints = append(p.endpoints, e.Name)
		}
	}
	if cfg.Listen.Token != h.cfg.Listen.Token {
		c.Live = append(c.Live, "listen token")
	}
	c.Restart = h.restart(cfg)
	return p
}

// listing names the settings that only the catalog reads.
var listing = map[string]bool{"prefix": true, "tools": true, "resources": true, "prompts": true}

// listsOnly reports whether settings leave the session of their server as it is.
func listsOnly(settings []string) bool {
	return !slices.ContainsFunc(settings, func(name string) bool { return !listing[name] })
}

// differs names the settings in which a server differs from what the member has,
// those of the plugin of its transport included.
func (m *member) differs(s config.Server, cfg *config.Config) []string {
	was := *m.server.Load()
	settings := settingsOf(was, s)
	if kinds := otherPlugins(m.cfg.Plugins, cfg.Plugins); kinds[s.Transport.Kind] || kinds[was.Transport.Kind] {
		settings = append(settings, "plugin "+s.Transport.Kind)
	}
	return settings
}

// settingsOf names the settings that differ between two servers of a name.
func settingsOf(a, b config.Server) []string {
	names := fields(a, b, "Name", "Transport", "Fault")
	if a.Transport.Kind != b.Transport.Kind {
		names = append(names, "transport")
	} else {
		names = append(names, attributes(a.Transport, b.Transport)...)
	}
	if len(names) == 0 && !a.Equal(b) {
		// A server that could not be resolved: nothing can be said about it,
		// so it gets a new start.
		names = append(names, "transport")
	}
	return names
}

// fields names the fields that differ between two structs, as the
// configuration writes them.
func fields[T any](a, b T, except ...string) (names []string) {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		f := x.Type().Field(i)
		if f.IsExported() && !slices.Contains(except, f.Name) && !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			names = append(names, snake(f.Name))
		}
	}
	return names
}

// snake writes a field's name as the configuration does: call_wait for
// CallWait.
func snake(name string) string {
	var out strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return out.String()
}

// attributes names the attributes that differ between two transport blocks of
// a kind.
func attributes(a, b config.Transport) (names []string) {
	var x, y map[string]json.RawMessage
	if json.Unmarshal(a.Config, &x) != nil || json.Unmarshal(b.Config, &y) != nil {
		return nil // one was not resolved; the caller sees that
	}
	all := maps.Clone(x)
	maps.Copy(all, y)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if string(x[name]) != string(y[name]) {
			names = append(names, "transport "+name)
		}
	}
	return names
}

// otherEndpoints names the endpoints that are others, new or gone.
func otherEndpoints(a, b []config.Endpoint) []string {
	names := map[string]bool{}
	for _, pair := range [][2][]config.Endpoint{{a, b}, {b, a}} {
		for _, e := range pair[0] {
			if !slices.ContainsFunc(pair[1], e.Equal) {
				names[e.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// otherPlugins returns the kinds whose plugin is another, new or gone.
func otherPlugins(a, b []config.Plugin) map[string]bool {
	kinds := map[string]bool{}
	for _, pair := range [][2][]config.Plugin{{a, b}, {b, a}} {
		for _, p := range pair[0] {
			if !slices.ContainsFunc(pair[1], func(q config.Plugin) bool { return q.Kind == p.Kind && q.Equal(p) }) {
				kinds[p.Kind] = true
			}
		}
	}
	return kinds
}

// restart names the settings in which a configuration differs from what the
// host was started with, and that nothing but a restart applies. The caller
// holds h.mu.
func (h *Host) restart(cfg *config.Config) (names []string) {
	if h.url != "" { // a host of one client listens nowhere
		except := []string{"Token"}
		if h.settings.Listen != "" {
			except = append(except, "Address")
		}
		for _, name := range fields(h.begun.Listen, cfg.Listen, except...) {
			names = append(names, "listen "+name)
		}
	}
	for _, name := range fields(h.begun.Log, cfg.Log) {
		names = append(names, "log "+name)
	}
	return names
}
