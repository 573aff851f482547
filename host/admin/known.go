package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// Known returns nil if a status has a server of that name, else an *Error of
// code UnknownServer that suggests others.
func Known(s Status, name string) error {
	names := make([]string, len(s.Servers))
	for i, server := range s.Servers {
		names[i] = server.Name
	}
	if slices.Contains(names, name) {
		return nil
	}
	return Unknown(name, names)
}

// Unknown returns the error for a name that is none of those known.
func Unknown(name string, known []string) *Error {
	e := &Error{Code: UnknownServer, Known: known, Near: Near(name, known)}
	e.Message = fmt.Sprintf("there is no server %q", name)
	switch {
	case len(e.Near) > 0:
		e.Message += "; did you mean " + strings.Join(e.Near, " or ") + "?"
	case len(known) > 0:
		e.Message += "; the servers are " + strings.Join(known[:min(len(known), 20)], ", ")
		if len(known) > 20 {
			e.Message += ", …"
		}
	default:
		e.Message += "; the configuration has none"
	}
	return e
}

// Near returns up to three names that a mistyped one may have meant, the
// likeliest first.
func Near(name string, known []string) []string {
	name = strings.ToLower(name)
	distance := func(other string) int {
		other = strings.ToLower(other)
		if strings.HasPrefix(other, name) && name != "" {
			return 0
		}
		return levenshtein.Distance(name, other, nil)
	}
	close := slices.DeleteFunc(slices.Clone(known), func(other string) bool {
		return distance(other) > max(1, min(3, len(name)/3))
	})
	slices.SortStableFunc(close, func(a, b string) int { return cmp.Compare(distance(a), distance(b)) })
	return close[:min(len(close), 3)]
}
