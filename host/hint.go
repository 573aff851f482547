package host

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hermes-host/hermes-host/host/admin"
	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/config"
)

// This file tells the person who wrote the configuration of filters that apply to
// nothing, once the lists of the servers are known.

// maxAdvice bounds how many patterns one advice names, and maxPattern how much of
// each, in bytes.
const (
	maxAdvice  = 10
	maxPattern = 200
)

// hint warns of what matches nothing until ctx ends: once, for as long as the
// configuration has it. The status shows what is so at the moment.
func (h *Host) hint(ctx context.Context) {
	sub := h.catalog.Subscribe()
	defer sub.Close()
	var last *config.Config
	told := map[hint]bool{}
	for {
		now := h.hints()
		if cfg := h.config(); cfg != last {
			// What the configuration of before had is worth a word again.
			maps.DeleteFunc(told, func(one hint, _ bool) bool { _, ok := now[one]; return !ok })
			last = cfg
		}
		fresh := map[*place][]catalog.Unmatched{}
		for one := range now {
			if !told[one] {
				told[one] = true
				fresh[now[one]] = append(fresh[now[one]], one.Unmatched)
			}
		}
		for at, all := range fresh {
			slices.SortFunc(all, func(a, b catalog.Unmatched) int {
				return strings.Compare(a.List+a.Setting+a.Pattern, b.List+b.Setting+b.Pattern)
			})
			h.log.Warn("the configuration works, but should be changed", at.kind, at.name,
				"advice", unmatchedAdvice(at.redact, at.offered, all), "place", at.where)
		}
		select {
		case <-ctx.Done():
			return
		case <-sub.Ready():
		}
	}
}

// A hint is one thing to tell, and a place what it belongs to.
type (
	hint struct {
		owner string // kind and name
		catalog.Unmatched
	}
	place struct {
		kind, name, where string
		offered           string              // whose entries
		redact            func(string) string // keeps secrets back
	}
)

// hints returns what matches nothing now.
func (h *Host) hints() map[hint]*place {
	servers, endpoints := h.catalog.Unmatched()
	all := map[hint]*place{}
	add := func(at *place, idle []catalog.Unmatched) {
		for _, u := range idle {
			all[hint{at.kind + " " + at.name, u}] = at
		}
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	for name, idle := range servers {
		if m := h.members[name]; m != nil {
			add(&place{"server", name, m.server.Load().Where(), listedByServer, h.redactAs(m)}, idle)
		}
	}
	for _, e := range h.cfg.Endpoints {
		add(&place{"endpoint", e.Name, e.Where(), offeredByServers, h.cfg.Redact}, endpoints[e.Name])
	}
	return all
}

// config returns the configuration that counts now.
func (h *Host) config() *config.Config {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.cfg
}

// redactAs returns what keeps the secrets of a member's filters back, which may
// be of a newer configuration than its session. The caller holds h.mu.
func (h *Host) redactAs(m *member) func(string) string {
	now := h.cfg
	return func(text string) string { return now.Redact(m.cfg.Redact(text)) }
}

// Whose entries a filter is about.
const (
	listedByServer   = "the server lists"
	offeredByServers = "its servers offer"
)

// unmatchedAdvice says what matches nothing; empty if there is nothing to say.
func unmatchedAdvice(redact func(string) string, offered string, idle []catalog.Unmatched) string {
	if len(idle) == 0 {
		return ""
	}
	var parts []string
	for _, u := range unmatched(redact, idle[:min(len(idle), maxAdvice)]) {
		parts = append(parts, fmt.Sprintf("%s %s %q", u.List, u.Setting, u.Pattern))
	}
	if more := len(idle) - maxAdvice; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return "matches nothing that " + offered + ": " + strings.Join(parts, ", ")
}

// unmatched makes catalog's findings fit to be shown.
func unmatched(redact func(string) string, idle []catalog.Unmatched) (out []admin.Unmatched) {
	for _, u := range idle {
		pattern := redact(u.Pattern)
		if len(pattern) > maxPattern {
			pattern = strings.ToValidUTF8(pattern[:maxPattern], "") + "…"
		}
		out = append(out, admin.Unmatched{List: u.List, Setting: u.Setting, Pattern: pattern})
	}
	return out
}

// advices joins what there is to say.
func advices(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "; ")
}
