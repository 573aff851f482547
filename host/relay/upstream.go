package relay

import (
	"strconv"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
	"github.com/hermes-host/hermes-host/internal/rawjson"
)

// upstream hears what a server sends on its own. The session's reader calls
// it, so nothing here waits.
type upstream struct {
	r   *Relay
	l   *link
	srv Server // whose session is heard; nil: that of whom Lookup returns
}

// Handler returns what the supervisor of a server's shared session takes as
// its handler.
func (r *Relay) Handler(server string) session.Handler {
	return upstream{r: r, l: r.link(server, nil)}
}

// HandlerOf is Handler for one of two supervisors while it takes over from the
// other: what its session asks is answered there.
func (r *Relay) HandlerOf(server string, srv Server) session.Handler {
	return upstream{r, r.link(server, nil), srv}
}

// asker returns who looks after the session that is heard, nil if nobody does.
func (u upstream) asker() Server {
	if u.srv != nil {
		return u.srv
	}
	return u.r.serverOf(u.l)
}

// Notification implements session.Handler.
func (u upstream) Notification(n session.Notification) {
	if supervisor.ChangedLists(n.Method) != 0 {
		return // the supervisor fetches the list; the catalog tells if it differs
	}
	switch n.Method {
	case "notifications/progress":
		u.progress(n)
	case "notifications/message":
		u.message(n)
	case "notifications/resources/updated":
		params := untagged(n.Params)
		for _, c := range u.l.subscribers(rawjson.Text(n.Params, "uri")) {
			c.Notify(n.Method, params)
		}
	case "notifications/subscriptions/acknowledged":
		// It belongs to a request of the relay's.
	case "notifications/cancelled":
		// It withdraws a question of the server's, by the server's id.
		u.r.withdraw(u.l, rawjson.Get(n.Params, "requestId"))
	case "notifications/elicitation/complete":
		// It comes when the call may long have ended; clients ignore ids that
		// they don't know (MCP 2025-11-25, client/elicitation).
		for _, c := range u.r.audience(u.l) {
			c.Notify(n.Method, n.Params)
		}
	default:
		u.rest(n)
	}
}

// progress goes to the call that our token stands for, under the client's own
// token; the token of a call that has ended stands for nothing.
func (u upstream) progress(n session.Notification) {
	// Some servers turn numbers into strings.
	token, err := strconv.ParseUint(strings.Trim(string(rawjson.Get(n.Params, "progressToken")), `"`), 10, 64)
	if err != nil {
		return
	}
	u.l.mu.Lock()
	c := u.l.byToken[token]
	u.l.mu.Unlock()
	if c == nil {
		return
	}
	f := c.front.Load()
	if f.theirs == nil {
		return // a retry has not asked for progress
	}
	if params, err := rawjson.Set(n.Params, f.theirs, "progressToken"); err == nil {
		f.stream.Notify(n.Method, params)
	}
}

// message goes to the call on whose stream it came, or to the only client that
// has calls in flight, else to every client of the server, always by level.
func (u upstream) message(n session.Notification) {
	lv := levels[rawjson.Text(n.Params, "level")]
	asked := u.asked()
	c := u.l.related(n.Related)
	if c == nil {
		c = u.l.only()
	}
	if c != nil {
		f := c.front.Load()
		if f.client.ProtocolVersion() >= catalog.Stateless {
			if f.level != 0 && lv >= f.level {
				f.stream.Notify(n.Method, n.Params)
			}
			return
		}
		if lv >= u.r.levelOf(u.l, f.client, asked) {
			f.stream.Notify(n.Method, n.Params)
		}
		return
	}
	for _, j := range u.r.audience(u.l) {
		if j.ProtocolVersion() < catalog.Stateless && lv >= j.lowest(asked) {
			j.Notify(n.Method, n.Params)
		}
	}
}

// asked reports whether any client has set a level.
func (u upstream) asked() bool { return u.r.wanted(u.l) != 0 }

// lowest returns the lowest level that a client is sent. One that has not
// asked gets what the server sends by itself, unless another client has asked
// for more than that: then info.
func (j *joined) lowest(asked bool) level {
	lv := level(j.level.Load())
	if lv == 0 && asked {
		return info
	}
	return lv
}

func (r *Relay) levelOf(l *link, c Client, asked bool) level {
	for _, e := range r.with(l.server) {
		e.mu.RLock()
		j := e.clients[c.ID()]
		e.mu.RUnlock()
		if j != nil {
			return j.lowest(asked)
		}
	}
	return 0
}

// rest goes to the call on whose stream it came, else to the clients that have
// the server or its session to themselves.
func (u upstream) rest(n session.Notification) {
	if c := u.l.related(n.Related); c != nil {
		c.front.Load().stream.Notify(n.Method, n.Params)
		return
	}
	for _, e := range u.r.with(u.l.server) {
		if e.server == "" && u.l.owner == nil {
			continue
		}
		for _, j := range e.joined() {
			if u.r.hears(u.l, j) {
				j.Notify(n.Method, n.Params)
			}
		}
	}
}

// Log implements session.Handler. Lines of a client's own session say whose it is.
func (u upstream) Log(line session.LogLine) {
	level := hclog.LevelFromString(line.Level)
	if level == hclog.NoLevel {
		level = hclog.Info
	}
	message, args := line.Text, []any{"server", u.l.server}
	if u.l.owner != nil {
		args = append(args, "session", Tag(u.l.owner))
	}
	if line.Stderr {
		level, message, args = hclog.Debug, "the server's stderr", append(args, "line", line.Text)
	}
	u.r.cfg.Logger.Log(level, message, args...)
}
