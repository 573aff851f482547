package catalog

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/hermes-host/hermes-host/internal/glob"
)

// A Filter chooses among a server's entries of one kind and renames them. Its
// zero value lets everything pass as it is.
type Filter struct {
	// Allow and Deny are patterns (package glob) for the names that the server
	// uses. An entry passes if Allow is empty or one of its patterns matches,
	// and none of Deny does.
	Allow, Deny []string
	// Rename maps a name that the server uses to the one that clients see
	// (before the prefix). Resources and templates keep their URIs, since
	// servers put those into results; for them it has no effect.
	Rename map[string]string
	// Describe maps a name that the server uses to the description that
	// clients see. It has an effect for tools only.
	Describe map[string]string
}

type filter struct {
	Filter
	allow, deny []*regexp.Regexp
	taken       map[string]bool // names that a rename took away
}

func (f Filter) compile() (*filter, error) {
	out := &filter{Filter: f, taken: map[string]bool{}}
	for into, patterns := range map[*[]*regexp.Regexp][]string{&out.allow: f.Allow, &out.deny: f.Deny} {
		for _, p := range patterns {
			re, err := glob.Compile(p)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", p, err)
			}
			*into = append(*into, re)
		}
	}
	for from, to := range f.Rename {
		if to == "" {
			return nil, fmt.Errorf("%q is renamed to nothing", from)
		}
		if from != to {
			out.taken[from] = true
		}
	}
	return out, nil
}

// admits reports whether an entry of this original name passes.
func (f *filter) admits(name string) bool {
	return (len(f.allow) == 0 || matchAny(f.allow, name)) && !f.denies(name)
}

// denies reports whether Deny names it.
func (f *filter) denies(name string) bool { return matchAny(f.deny, name) }

func matchAny(patterns []*regexp.Regexp, name string) bool {
	return slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(name) })
}

// outer returns the name that clients see, before the prefix.
func (f *filter) outer(name string) string {
	if to, ok := f.Rename[name]; ok {
		return to
	}
	return name
}

// original turns a name that clients see into the server's own, for entries
// that no list has shown. It reports false if no entry can have that name.
func (f *filter) original(outer string) (string, bool) {
	for from, to := range f.Rename {
		if to == outer {
			return from, f.admits(from)
		}
	}
	return outer, !f.taken[outer] && f.admits(outer)
}
