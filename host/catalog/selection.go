package catalog

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
)

// A Selection is a choice of what servers offer, at an endpoint of its own under
// the names of the aggregate.
type Selection struct {
	Name    string
	Servers []string // names that no server has offer nothing
	// The filters speak of outer names, and of URIs. Their Rename and Describe
	// have no effect.
	Tools, Resources, Prompts Filter
}

// selection is a Selection made ready for use. Nil stands for everything.
type selection struct {
	Selection
	filters [kinds]*filter
}

func (s *selection) admits(kind Kind, outer string) bool {
	return s == nil || s.filters[kind].admits(outer)
}

// SetEndpoints replaces the set of selections, in one step. They stay over
// SetServers. The endpoint of a name stays the same as long as the name is in
// the set, and shows what its selection is now. The error joins all that is
// wrong with the arguments; nothing has changed then.
func (c *Catalog) SetEndpoints(all []Selection) error {
	var errs []error
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.state.Load()
	next := *old
	next.endpoints = maps.Clone(old.endpoints)
	maps.DeleteFunc(next.endpoints, func(_ string, e *Endpoint) bool { return e.selected })
	now := map[*Endpoint]*selection{}
	for _, s := range all {
		if s.Name == "" || next.endpoints[s.Name] != nil {
			errs = append(errs, fmt.Errorf("endpoint %q: the name is empty, or that of a server or another endpoint", s.Name))
			continue
		}
		chosen := &selection{Selection: s}
		for kind, f := range map[Kind]Filter{Tools: s.Tools, Resources: s.Resources, Templates: s.Resources, Prompts: s.Prompts} {
			var err error
			if chosen.filters[kind], err = f.compile(); err != nil && kind != Templates {
				errs = append(errs, fmt.Errorf("endpoint %q: %s: %w", s.Name, kind.member(), err))
			}
		}
		e := old.endpoints[s.Name]
		if e == nil || !e.selected {
			e = &Endpoint{c: c, selected: true}
		}
		if was := e.selection.Load(); was == nil || !reflect.DeepEqual(was.Selection, s) {
			now[e] = chosen
		}
		next.endpoints[s.Name] = e
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for e, chosen := range now {
		e.selection.Store(chosen)
	}
	c.publish(&next)
	return nil
}
