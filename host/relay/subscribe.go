package relay

import (
	"context"
	"encoding/json"
	"time"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// aside bounds what the relay asks a server on its own account.
const aside = 30 * time.Second

// Bounds of the subscriptions that are kept for one server.
const (
	maxURIs        = 10_000
	maxSubscribers = 10_000
)

// subscribe handles resources/subscribe. The server hears of every request, as
// a second one changes nothing there; the relay remembers whom to tell.
func (e *endpoint) subscribe(ctx context.Context, c Call) session.Reply {
	p, server, bad := e.resource(c)
	if bad != nil {
		return failed(bad)
	}
	srv, l, bad := e.find(server, c.Client)
	if bad != nil {
		return failed(bad)
	}
	s, err := meet(ctx, srv) // its version decides how
	if err != nil {
		return e.r.unanswered(ctx, c, server, err)
	}
	if err := l.take(ctx); err != nil {
		return failed(jsonrpc.Errorf(jsonrpc.CodeInternalError, "%v", err))
	}
	defer l.give()
	// Before the server answers it may already tell of an update.
	added, ok := l.want(p.text, c.Client)
	if !ok {
		return failed(jsonrpc.Errorf(codeUnavailable, "server %q has as many resource subscriptions as the host keeps", server))
	}
	var reply session.Reply
	if listens(s) {
		reply = e.r.subscribeByListening(l, s, p.text)
	} else {
		reply = e.forward(ctx, c, p, server, true)
	}
	if reply.Error != nil && added {
		l.unwant(p.text, c.Client)
	}
	return reply
}

// unsubscribe handles resources/unsubscribe. The server hears of it when
// nobody else is subscribed.
func (e *endpoint) unsubscribe(ctx context.Context, c Call) session.Reply {
	p, server, bad := e.resource(c)
	if where, ok := e.subscribed(p.text, c.Client); ok {
		server, bad = where, nil // whoever has the URI by now
	}
	if bad != nil {
		return failed(bad)
	}
	srv, l, bad := e.find(server, c.Client)
	if bad != nil {
		return failed(bad)
	}
	if err := l.take(ctx); err != nil {
		return failed(jsonrpc.Errorf(jsonrpc.CodeInternalError, "%v", err))
	}
	defer l.give()
	l.unwant(p.text, c.Client)
	if l.wants(p.text) {
		return session.Reply{Result: json.RawMessage(`{}`)}
	}
	s, err := meet(ctx, srv)
	if err != nil {
		return e.r.unanswered(ctx, c, server, err)
	}
	if listens(s) {
		l.unlisten(p.text)
		return session.Reply{Result: json.RawMessage(`{}`)}
	}
	return e.forward(ctx, c, p, server, true)
}

// subscribed returns the server at which a client is subscribed to a URI.
func (e *endpoint) subscribed(uri string, c Client) (string, bool) {
	for _, server := range e.cat.View().Servers() {
		l := e.r.link(server, e.owner(server, c))
		l.mu.Lock()
		_, ok := l.subs[uri][c.ID()]
		l.mu.Unlock()
		if ok {
			return server, true
		}
	}
	return "", false
}

// want adds a subscriber. Added is false if it was there already, ok is false
// if there are too many.
func (l *link) want(uri string, c Client) (added, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.subs[uri]
	if _, there := all[c.ID()]; there {
		return false, true
	}
	if len(l.subs) >= maxURIs || len(all) >= maxSubscribers {
		return false, false
	}
	if all == nil {
		all = map[string]Client{}
		l.subs[uri] = all
	}
	all[c.ID()] = c
	return true, true
}

func (l *link) unwant(uri string, c Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.subs[uri], c.ID())
	if len(l.subs[uri]) == 0 {
		delete(l.subs, uri)
	}
}

func (l *link) wants(uri string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.subs[uri] != nil
}

func (l *link) subscribers(uri string) []Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Client, 0, len(l.subs[uri]))
	for _, c := range l.subs[uri] {
		all = append(all, c)
	}
	return all
}

// forget drops all subscriptions of a client, and in the background cancels
// those upstream that nobody is left for.
func (r *Relay) forget(l *link, c Client) {
	var orphans []string
	l.mu.Lock()
	for uri, all := range l.subs {
		if _, there := all[c.ID()]; !there {
			continue
		}
		if delete(all, c.ID()); len(all) == 0 {
			delete(l.subs, uri)
			orphans = append(orphans, uri)
		}
	}
	l.mu.Unlock()
	srv := r.serverOf(l)
	if len(orphans) == 0 || srv == nil {
		return
	}
	r.background(func(ctx context.Context) {
		if l.take(ctx) != nil {
			return
		}
		defer l.give()
		s := srv.Session()
		for _, uri := range orphans {
			if s == nil || l.wants(uri) {
				continue // gone with the session, or wanted again
			}
			r.tellURI(ctx, l, s, "resources/unsubscribe", uri)
		}
	})
}

// tellURI subscribes or unsubscribes on the relay's own account. The caller
// has the link's turn.
func (r *Relay) tellURI(ctx context.Context, l *link, s session.Session, method, uri string) {
	if listens(s) {
		if method == "resources/subscribe" {
			r.listen(l, s, uri)
		} else {
			l.unlisten(uri)
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, aside)
	defer cancel()
	params := json.RawMessage(`{"uri":` + string(rawjson.Quote(uri)) + `}`)
	reply, err := s.Call(ctx, session.Request{Method: method, Params: params})
	if err == nil && reply.Error != nil {
		err = reply.Error
	}
	if err != nil {
		r.cfg.Logger.Debug("a subscription was not changed", "server", l.server, "method", method, "error", err)
	}
}
