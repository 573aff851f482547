package relay

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// level is a level of notifications/message (MCP, server/utilities/logging;
// the names are those of RFC 5424). 0 is none.
type level int

var levels = map[string]level{
	"debug": 1, "info": 2, "notice": 3, "warning": 4, "error": 5, "critical": 6, "alert": 7, "emergency": 8,
}

var levelNames = [...]string{"", "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

const info level = 2

// metaLogLevel is where requests of protocol 2026-07-28 say which log messages
// they want on their stream; without it they want none (SEP-2575).
const metaLogLevel = "io.modelcontextprotocol/logLevel"

// setLevel handles logging/setLevel. The level is the client's own; a server
// is told the most verbose level that any of its clients wants.
func (e *endpoint) setLevel(ctx context.Context, c Call) session.Reply {
	p, bad := readParams(c, "level")
	if bad != nil {
		return failed(bad)
	}
	lv := levels[p.text]
	if lv == 0 {
		return failed(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "logging/setLevel: %q is no log level", cut(p.text, 50)))
	}
	e.mu.RLock()
	if j := e.clients[c.Client.ID()]; j != nil {
		j.level.Store(int32(lv))
	}
	e.mu.RUnlock()
	if e.server != "" {
		return e.setLevelAt(ctx, c, p, lv)
	}
	for _, server := range e.cat.View().Servers() {
		e.r.relevel(e.r.link(server, e.owner(server, c.Client)))
	}
	return session.Reply{Result: json.RawMessage(`{}`)}
}

// setLevelAt sets the level at the only server. It answers for itself, if only
// to say that it knows no levels; but from protocol 2026-07-28 on each request
// says which messages it wants (SEP-2575), which the relay does for clients of
// older versions.
func (e *endpoint) setLevelAt(ctx context.Context, c Call, p params, lv level) session.Reply {
	srv, l, bad := e.find(e.server, c.Client)
	if bad != nil {
		return failed(bad)
	}
	version, err := e.r.versionOf(ctx, srv, l)
	if err != nil {
		return e.r.unanswered(ctx, c, e.server, err)
	}
	if version >= catalog.Stateless {
		return session.Reply{Result: json.RawMessage(`{}`)}
	}
	if err := l.take(ctx); err != nil {
		return failed(jsonrpc.Errorf(jsonrpc.CodeInternalError, "%v", err))
	}
	defer l.give()
	want := e.r.wanted(l)
	if want == 0 || lv < want {
		want = lv
	}
	p.rename(levelNames[want])
	reply := e.forward(ctx, c, p, e.server, true)
	if reply.Error == nil {
		l.at = want
	}
	return reply
}

// wanted returns the most verbose level among the clients of a link, 0 if none
// has asked for one. A client that has not asked counts as info.
func (r *Relay) wanted(l *link) level {
	var most level
	asked := false
	for _, j := range r.audience(l) {
		lv := level(j.level.Load())
		if lv == 0 {
			lv = info
		} else {
			asked = true
		}
		if most == 0 || lv < most {
			most = lv
		}
	}
	if !asked {
		return 0
	}
	return most
}

// relevel tells a server in the background which level its clients want, if it
// has a session that does not know.
func (r *Relay) relevel(l *link) {
	srv := r.serverOf(l)
	if srv == nil || l.releveling.Swap(true) {
		return // what is about to look sees this change too
	}
	r.background(func(ctx context.Context) {
		if l.take(ctx) != nil {
			return
		}
		defer l.give()
		l.releveling.Store(false)
		if s := srv.Session(); s != nil { // otherwise the next is told when it is listed
			r.tellLevel(ctx, l, s)
		}
	})
}

// tellLevel sends the level that is wanted now, if it is another than the
// server was told. The caller has the link's turn.
func (r *Relay) tellLevel(ctx context.Context, l *link, s session.Session) {
	want := r.wanted(l)
	if want == 0 && l.at != 0 {
		want = info
	}
	if want == l.at || s.Info().ProtocolVersion >= catalog.Stateless || !has(s.Info().Capabilities, "logging") {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, aside)
	defer cancel()
	reply, err := s.Call(ctx, session.Request{
		Method: "logging/setLevel", Params: json.RawMessage(`{"level":` + strconv.Quote(levelNames[want]) + `}`),
	})
	switch {
	case err != nil:
		r.cfg.Logger.Debug("the log level was not set", "server", l.server, "error", err)
	case reply.Error != nil:
		r.cfg.Logger.Debug("the log level was refused", "server", l.server, "error", reply.Error)
		l.at = want // asking again would not help
	default:
		l.at = want
	}
}
