package catalog

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// This file finds what a configuration says of entries that there are not. A
// filter with a typo is no error, since a server may list the entry tomorrow;
// but a deny that matches nothing leaves a tool open that somebody meant to close.

// An Unmatched is a pattern or a name in a filter that applies to no entry.
type Unmatched struct {
	List    string // tools, resources or prompts, as the configuration has them
	Setting string // allow, deny, rename or describe
	Pattern string // or the name
}

// Unmatched returns what matches nothing, by server and by the name of a
// selection. Nothing is said where it can't be known: of lists that have not
// come, were cut or refused, and of patterns for URIs that a template may stand
// for. What a server has listed counts until it lists anew, also while it is
// away.
func (c *Catalog) Unmatched() (servers, selections map[string][]Unmatched) {
	servers, selections = map[string][]Unmatched{}, map[string][]Unmatched{}
	s := c.state.Load()
	for _, o := range s.offers {
		if len(o.unmatched) > 0 {
			servers[o.cfg.Name] = o.unmatched
		}
	}
	for name, e := range s.endpoints {
		if !e.selected {
			continue
		}
		if found := e.View().unmatched(); len(found) > 0 {
			selections[name] = found
		}
	}
	return servers, selections
}

// targets are what a pattern may match.
type targets struct {
	known []string
	open  []string // what names that nobody has listed may begin with
	vague bool     // there may be any others
}

// add adds what an offer has of a kind, under the names that its server uses.
func (n *targets) add(o *offer, kind Kind) {
	h := &o.heard[kind]
	n.vague = n.vague || h.more > 0 || h.note != ""
	for _, q := range h.bad {
		n.known = append(n.known, q.Name)
	}
	for _, it := range h.items {
		n.known = append(n.known, it.name)
		if kind == Templates {
			literal, _, _ := strings.Cut(it.name, "{")
			n.open = append(n.open, literal)
		}
	}
}

// lists are the lists as the configuration targets them.
var lists = []struct {
	name  string
	kinds []Kind
}{{"tools", []Kind{Tools}}, {"resources", []Kind{Resources, Templates}}, {"prompts", []Kind{Prompts}}}

// unmatchedBy returns what of the filters applies to no entry of the offer.
func (o *offer) unmatchedBy(filters *[kinds]*filter) (all []Unmatched) {
	if !o.listed {
		return nil
	}
	for _, l := range lists {
		f := filters[l.kinds[0]]
		if f.empty() {
			continue
		}
		var n targets
		for _, kind := range l.kinds {
			n.add(o, kind)
		}
		all = append(all, f.unmatched(l.name, n)...)
	}
	return all
}

// unmatched returns what of the view's selection applies to no entry, once for
// the view.
func (v *View) unmatched() []Unmatched {
	v.idle.Do(func() {
		for _, l := range lists {
			f := v.selection.filters[l.kinds[0]]
			if f.empty() {
				continue
			}
			var n targets
			for _, kind := range l.kinds {
				v.outers(&n, kind)
			}
			v.idlers = append(v.idlers, f.unmatched(l.name, n)...)
		}
	})
	return v.idlers
}

// outers adds the names that clients would see without the selection.
func (v *View) outers(n *targets, kind Kind) {
	var entries []*Entry
	for _, o := range v.offers {
		entries = append(entries, o.entries[kind]...)
		switch {
		case kind == Resources || kind == Templates:
			n.vague = n.vague || !o.listed
			n.add(o, kind)
		case !o.listed && o.cfg.prefix == "":
			n.vague = true
		case !o.listed:
			n.open = append(n.open, o.cfg.prefix+separator)
		default:
			n.vague = n.vague || o.heard[kind].more > 0 || o.heard[kind].note != ""
			for _, q := range o.heard[kind].bad {
				plain, _ := o.cfg.plain(q.Name)
				n.known = append(n.known, plain)
			}
		}
	}
	if kind == Tools || kind == Prompts {
		n.known = append(n.known, assign(entries, v.naming)...)
	}
}

func (f *filter) empty() bool {
	return len(f.Allow)+len(f.Deny)+len(f.Rename)+len(f.Describe) == 0
}

// unmatched returns what of the filter applies to none of the names.
func (f *filter) unmatched(list string, n targets) (all []Unmatched) {
	if n.vague {
		return nil
	}
	for _, set := range []struct {
		name     string
		patterns []string
		compiled []*regexp.Regexp
	}{{"allow", f.Allow, f.allow}, {"deny", f.Deny, f.deny}} {
		for i, p := range set.patterns {
			if !slices.ContainsFunc(n.known, set.compiled[i].MatchString) && !n.mayMatch(p) {
				all = append(all, Unmatched{list, set.name, p})
			}
		}
	}
	for _, set := range []struct {
		name string
		of   map[string]string
	}{{"rename", f.Rename}, {"describe", f.Describe}} {
		for _, name := range slices.Sorted(maps.Keys(set.of)) {
			if !slices.Contains(n.known, name) {
				all = append(all, Unmatched{list, set.name, name})
			}
		}
	}
	return all
}

// mayMatch reports whether a pattern may match a name that nobody has listed.
func (n *targets) mayMatch(pattern string) bool {
	literal := pattern
	if i := strings.IndexAny(pattern, `*?[\`); i >= 0 {
		literal = pattern[:i]
	}
	return slices.ContainsFunc(n.open, func(begin string) bool {
		return strings.HasPrefix(literal, begin) || literal != pattern && strings.HasPrefix(begin, literal)
	})
}
