package host

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"unicode"

	"github.com/hermes-host/hermes-host/host/admin"
	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

// This file is what operators see of the sessions that clients have for
// themselves.

// clientSession is what they are called in log and events.
const clientSession = "client's session"

// shownSessions bounds how many of them a server's status lists.
const shownSessions = 50

// ownCounters counts what a member's sessions of clients have done so far.
type ownCounters struct {
	calls, failed, inFlight atomic.Int64
	starts, replayed        atomic.Int64 // of those that have ended
}

// over counts what a session has done that has ended.
func (p *scopes) over(o *own) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, o)
	st := o.sup.Status()
	o.of.own.starts.Add(st.Starts)
	o.of.own.replayed.Add(st.Replayed)
}

// A crowd is the sessions that clients have for themselves with one member.
type crowd struct {
	all, up          int
	starts, replayed int64
	sessions         []admin.ClientSession // shownSessions at most
}

// crowds returns the sessions of clients at this moment.
func (p *scopes) crowds() map[*member]*crowd {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[*member]*crowd{}
	of := func(m *member) *crowd {
		if all[m] == nil {
			all[m] = &crowd{starts: m.own.starts.Load(), replayed: m.own.replayed.Load()}
		}
		return all[m]
	}
	for o := range p.all {
		st, c := o.sup.Status(), of(o.of)
		c.starts += st.Starts
		c.replayed += st.Replayed
		if p.by[o.server][o.client] == o { // else it only finishes its calls
			c.all++
			if o.Session() != nil {
				c.up++
			}
			c.sessions = append(c.sessions, o.describe(st))
		}
	}
	for _, c := range all {
		ready := func(s admin.ClientSession) int { // what is wrong is shown first
			if s.State == supervisor.Ready.String() {
				return 1
			}
			return 0
		}
		slices.SortFunc(c.sessions, func(a, b admin.ClientSession) int {
			return cmp.Or(cmp.Compare(ready(a), ready(b)), a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
		})
		c.sessions = c.sessions[:min(len(c.sessions), shownSessions)]
	}
	return all
}

// describe returns a session for operators.
func (o *own) describe(st supervisor.Status) admin.ClientSession {
	s := admin.ClientSession{
		ID: o.tag, Client: o.name, State: st.State.String(), Since: st.Since, Generation: st.Generation,
		Calls: admin.Calls{Total: st.Calls, Failed: st.Failures, InFlight: st.InFlight, Replayed: st.Replayed},
	}
	if st.State != supervisor.Ready {
		s.Reason = o.of.redact(st.Reason)
	}
	if st.Session != nil {
		s.PID, s.Plugin = st.Session.Process, st.Session.Plugin
	}
	return s
}

// add adds what the sessions of clients have done to the status of their member.
func (m *member) add(s *admin.Server, c *crowd) {
	if c == nil { // none at present
		c = &crowd{starts: m.own.starts.Load(), replayed: m.own.replayed.Load()}
	}
	s.Sessions += c.up
	s.Starts += c.starts
	s.Clients, s.ClientSessions = c.all, c.sessions
	s.Calls.Total += m.own.calls.Load()
	s.Calls.Failed += m.own.failed.Load()
	s.Calls.InFlight += m.own.inFlight.Load()
	s.Calls.Replayed += c.replayed
}

// maxClientName bounds what is shown of a client's name, in characters.
const maxClientName = 64

// nameOf returns what a client calls itself, fit to be shown.
func nameOf(c relay.Client) string {
	var info struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(c.Info(), &info) // it need not say
	name := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, info.Name)
	if runes := []rune(name); len(runes) > maxClientName {
		name = string(runes[:maxClientName]) + "…"
	}
	return cmp.Or(name, "unnamed")
}
