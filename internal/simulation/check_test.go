package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hermes-host/hermes-host/breaker"
	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

// The machine and the breaker once more, as they were designed.
var (
	ways = map[supervisor.State][]supervisor.State{
		supervisor.Connecting:   {supervisor.Ready, supervisor.Parked, supervisor.Stopped},
		supervisor.Ready:        {supervisor.Reconnecting, supervisor.Parked, supervisor.Stopped},
		supervisor.Reconnecting: {supervisor.Ready, supervisor.Parked, supervisor.Stopped},
		supervisor.Parked:       {supervisor.Reconnecting, supervisor.Stopped},
	}
	circuits = map[breaker.State][]breaker.State{
		breaker.Closed:   {breaker.Open},
		breaker.Open:     {breaker.HalfOpen, breaker.Closed},
		breaker.HalfOpen: {breaker.Closed, breaker.Open},
	}
)

// transition hears of every change of state.
func (h *history) transition(s *server, t supervisor.Transition) {
	h.event("%s → %s: %s", t.From, t.To, t.Reason)
	switch {
	case t.From != s.state:
		h.fault("a transition from %s, the last led to %s", t.From, s.state)
	case !slices.Contains(ways[t.From], t.To):
		h.fault("no way leads from %s to %s", t.From, t.To)
	case t.Reason == "":
		h.fault("the transition from %s to %s has no reason", t.From, t.To)
	case s.sup.Status().State != t.To:
		h.fault("the transition to %s is told while the state is %s", t.To, s.sup.Status().State)
	}
	s.state = t.To
	if t.To == supervisor.Ready || t.To == supervisor.Parked {
		s.settle.Do(func() { close(s.settled) })
	}
}

// circuit hears of every change of the breaker.
func (h *history) circuit(s *server, from, to breaker.State) {
	h.event("breaker %s → %s", from, to)
	h.mu.Lock()
	was := s.circuit
	s.circuit = to
	h.mu.Unlock()
	if from != was || !slices.Contains(circuits[from], to) {
		h.fault("the breaker went from %s to %s, it was %s", from, to, was)
	}
}

// person reports whether only a person can end a park.
func person(st supervisor.Status) bool {
	switch st.Parked {
	case supervisor.Unauthorized, supervisor.Misconfigured, supervisor.ByOperator:
		return true
	}
	return false
}

// check waits until nothing more follows from what happened, and holds the
// present state to the invariants.
func (h *history) check() {
	h.after(0)
	s := h.server()
	st := s.sup.Status()
	bad := func(format string, args ...any) {
		h.fault("%s; %s since %s (%s), next attempt in %s, breaker %+v", fmt.Sprintf(format, args...),
			st.State, time.Since(st.Since), st.Reason, time.Until(st.NextAttempt), st.Breaker)
	}
	h.world.mu.Lock()
	open, since, closingSince := h.world.open, h.world.since, h.world.closing
	h.world.mu.Unlock()

	select {
	case <-s.ended:
		if st.State != supervisor.Stopped {
			bad("Run has returned")
		}
	default:
		if st.State == supervisor.Stopped {
			bad("stopped, and Run goes on")
		}
	}
	next := time.Until(st.NextAttempt)
	switch st.State {
	case supervisor.Ready:
		if s.sup.Session() == nil || st.Left != budget || !st.NextAttempt.IsZero() {
			bad("ready without a session, or with a budget of %d", st.Left)
		}
	case supervisor.Parked:
		switch {
		case s.sup.Session() != nil || st.Breaker.State == breaker.Closed:
			bad("parked with a session or a closed breaker")
		case person(st) && !st.NextAttempt.IsZero():
			bad("parked for a person, and on a timer")
		case !person(st) && (st.NextAttempt.IsZero() || next > revival):
			bad("parked without a timer, or for too long")
		}
	case supervisor.Connecting, supervisor.Reconnecting:
		switch {
		case open > 0 && !closingSince.IsZero():
			if d := time.Since(closingSince); d > closing {
				bad("closing takes %s", d)
			}
		case open > 0:
			if d := time.Since(since); d > connect+listing {
				bad("the attempt takes %s", d)
			}
		case st.NextAttempt.IsZero() || next <= 0 || next > backOff:
			bad("nothing is under way")
		}
	}
	if st.Breaker.RetryAfter > cooldown {
		bad("the breaker refuses for more than a cooldown")
	}
	if st.Breaker.State == breaker.HalfOpen && st.InFlight == 0 {
		var open *supervisor.OpenError
		if err := h.ask(s, 0); errors.As(err, &open) {
			bad("the probe's slot is lost: %v", err)
		}
	}
	if live, ok := s.sup.Session().(*sess); ok {
		h.mu.Lock()
		heard := h.heard[live.n]
		h.mu.Unlock()
		if !live.called.Load() && st.Breaker.State != breaker.Closed {
			bad("the breaker holds calls back from session %d, which none has reached", live.n)
		}
		if live.early() && heard < 2 {
			bad("of 2 events that session %d sent before it was there %d came through", live.n, heard)
		}
	}
	h.checkCatalog(st.State)
	h.checkCalm()
}

// checkCalm has the other server prove that it has noticed nothing.
func (h *history) checkCalm() {
	at := time.Now()
	err := h.ask(h.calm, time.Hour)
	if took := time.Since(at); err != nil || took > 0 {
		h.fault("a call to the calm server took %s: %v", took, err)
	}
	if st := h.calm.sup.Status(); st.State != supervisor.Ready || st.Starts != 1 {
		h.fault("the calm server is %s after %d sessions", st.State, st.Starts)
	}
}

// seen is the catalog as it was read last.
type seen struct {
	view  *catalog.View
	lists map[catalog.Kind][]string
}

// read returns what the catalog offers of the server.
func (h *history) read() map[catalog.Kind][]string {
	endpoint, ok := h.catalog.Endpoint("x")
	if !ok {
		return nil
	}
	view := endpoint.View()
	if view == h.seen.view {
		return h.seen.lists
	}
	h.seen = seen{view, map[catalog.Kind][]string{}}
	for kind := range kinds {
		raw, err := view.List(kind, nil, "2025-11-25")
		if err != nil {
			h.fault("listing from the catalog: %v", err)
		}
		var page map[string][]struct{ Name, URI string }
		if err := json.Unmarshal(raw, &page); err != nil {
			h.fault("the catalog's list %s: %v", raw, err)
		}
		for _, e := range page[kinds[kind].member] {
			if kind == catalog.Resources {
				e.Name = e.URI
			}
			h.seen.lists[kind] = append(h.seen.lists[kind], e.Name)
		}
	}
	return h.seen.lists
}

// checkCatalog holds the catalog to the state: nothing of a server that is
// parked, stopped or not configured; whole lists of the live session of one
// that is ready; nothing or whole lists of any one session otherwise.
func (h *history) checkCatalog(state supervisor.State) {
	lists := h.read()
	session := 0
	if live, ok := h.server().sup.Session().(*sess); ok {
		session = live.n
	}
	gone := state == supervisor.Parked || state == supervisor.Stopped || !h.config.there
	from := 0 // the session that the lists are from
	for kind, f := range kinds {
		got := lists[kind]
		var n, version int
		if len(got) > 0 {
			_, _ = fmt.Sscanf(got[0], f.name, &n, &version, new(int))
		}
		want := h.entries(kind, n, version)
		switch {
		case gone && len(got) > 0:
			h.fault("%s, and the catalog has %v", state, got)
		case len(got) == 0 && state == supervisor.Ready:
			h.fault("ready, and the catalog has no %s", f.member)
		case len(got) > 0 && !slices.Equal(got, want):
			h.fault("the catalog has the %s %v, which are not whole: %v", f.member, got, want)
		case state == supervisor.Ready && n != session:
			h.fault("session %d is ready, the catalog has the %s of session %d", session, f.member, n)
		case from > 0 && n != from:
			h.fault("the catalog has lists of sessions %d and %d", from, n)
		}
		from = n
	}
	all, _ := h.catalog.Endpoint("")
	if n, want := all.View().Len(catalog.Prompts), len(lists[catalog.Prompts])+h.calmEntries(); n != want {
		h.fault("the catalog has %d prompts of all servers, want %d", n, want)
	}
}

// calmEntries is how many entries of a kind the calm server has at present.
func (h *history) calmEntries() int {
	if h.calm.sup.Status().State == supervisor.Stopped {
		return 0
	}
	return entries
}

// entries returns what is to be seen of a list.
func (h *history) entries(kind catalog.Kind, n, version int) (names []string) {
	seen := entries
	if kind == catalog.Tools && h.config.hides {
		seen--
	}
	for i := range seen {
		names = append(names, fmt.Sprintf(kinds[kind].name, n, version, i))
	}
	return names
}

// checkFresh holds the catalog to the newest lists of the live session.
func (h *history) checkFresh() {
	live, ok := h.server().sup.Session().(*sess)
	if !ok {
		h.fault("there is no session")
		return
	}
	lists := h.read()
	for kind, version := range live.versions() {
		if _, ok := kinds[catalog.Kind(kind)]; !ok {
			continue
		}
		got := lists[catalog.Kind(kind)]
		if want := h.entries(catalog.Kind(kind), live.n, version); !slices.Equal(got, want) {
			h.fault("the catalog has the %s %v, the server %v", kinds[catalog.Kind(kind)].member, got, want)
		}
	}
}
