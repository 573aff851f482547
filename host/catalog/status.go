package catalog

import "fmt"

// Status is what there is to say about one server's entries.
type Status struct {
	Server string `json:"server"`
	Live   bool   `json:"live"` // its entries are in the lists
	// Counts of the entries that are offered, after the filters.
	Tools     int `json:"tools"`
	Resources int `json:"resources"`
	Templates int `json:"resourceTemplates"`
	Prompts   int `json:"prompts"`
	// Filtered is how many entries the configuration holds back.
	Filtered int `json:"filtered,omitempty"`
	// Quarantined entries were left out since clients would choke on them.
	Quarantined []Problem `json:"quarantined,omitempty"`
	// Shadowed are URIs that another server offers too and is asked for.
	Shadowed []Shadow `json:"shadowed,omitempty"`
	// Renamed are entries whose name in the aggregate is not the plain one.
	Renamed []Renaming `json:"renamed,omitempty"`
	Notes   []string   `json:"notes,omitempty"`
}

// A Problem is a quarantined entry.
type Problem struct {
	List string `json:"list"` // tools, resources, resourceTemplates or prompts
	Quarantined
}

// A Shadow is an entry that is not served in the aggregate since another
// server comes first with it.
type Shadow struct {
	List string `json:"list"`
	Name string `json:"name"`
	By   string `json:"by"` // the server that is asked instead; "" if it is a clash of names
}

// A Renaming says under which name an entry is served in the aggregate.
type Renaming struct {
	List  string `json:"list"`
	Name  string `json:"name"`
	Outer string `json:"outer"`
}

// Status describes all servers in configuration order.
func (c *Catalog) Status() []Status {
	e, _ := c.Endpoint("")
	v := e.View()
	all := make([]Status, len(v.offers))
	at := map[string]*Status{}
	for i, o := range v.offers {
		s := &all[i]
		*s = Status{
			Server: o.cfg.Name, Live: o.live,
			Tools: len(o.entries[Tools]), Resources: len(o.entries[Resources]),
			Templates: len(o.entries[Templates]), Prompts: len(o.entries[Prompts]),
		}
		at[o.cfg.Name] = s
		for kind := range kinds {
			h := &o.heard[kind]
			s.Filtered += len(h.items) - len(o.entries[kind])
			for _, q := range h.bad {
				s.Quarantined = append(s.Quarantined, Problem{kind.member(), q})
			}
			if h.more > 0 {
				s.Notes = append(s.Notes, fmt.Sprintf("%s: %d more are quarantined", kind.member(), h.more))
			}
			if h.note != "" {
				s.Notes = append(s.Notes, kind.member()+": "+h.note)
			}
		}
	}
	for kind := range kinds {
		for _, e := range v.shadowed[kind] {
			shadow := Shadow{List: kind.member(), Name: e.Name}
			switch kind {
			case Resources:
				shadow.By = v.resources[e.Name].Server
			case Templates:
				for _, other := range v.templates {
					if other.Name == e.Name {
						shadow.By = other.Server
					}
				}
			}
			at[e.Server].Shadowed = append(at[e.Server].Shadowed, shadow)
		}
		if kind != Tools && kind != Prompts {
			continue
		}
		l := &v.lists[kind]
		for i, e := range l.entries {
			if l.outer[i] != e.plain || e.base != e.Name {
				at[e.Server].Renamed = append(at[e.Server].Renamed, Renaming{kind.member(), e.Name, l.outer[i]})
			}
		}
	}
	return all
}
