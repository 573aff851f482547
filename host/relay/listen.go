package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// Servers of 2026-07-28 know no resources/subscribe. They tell of updates on a
// subscriptions/listen request for as long as that is open (SEP-2575). The
// relay keeps one open for each resource that a client has subscribed to. (The
// transport plugin keeps another one for the changes of lists.)

// Pauses before listening again after a server has ended a subscription.
const (
	listenPause    = time.Second
	listenPauseMax = time.Minute
)

// subscribeByListening is resources/subscribe where a server knows only
// subscriptions/listen. The caller has the link's turn.
func (r *Relay) subscribeByListening(l *link, s session.Session, uri string) session.Reply {
	if string(rawjson.Get(s.Info().Capabilities, "resources", "subscribe")) != "true" {
		return failed(jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "server %q has no subscriptions of resources", l.server))
	}
	r.listen(l, s, uri)
	return session.Reply{Result: json.RawMessage(`{}`)}
}

// listen keeps a subscriptions/listen for a resource open until unlisten, or
// the end of the session.
func (r *Relay) listen(l *link, s session.Session, uri string) {
	ctx, cancel := context.WithCancel(r.ctx)
	l.mu.Lock()
	if was, ok := l.listens[uri]; ok {
		if was.s == s {
			l.mu.Unlock()
			cancel()
			return
		}
		was.cancel() // of a session that has ended
	}
	this := &listening{s, cancel}
	l.listens[uri] = this
	l.mu.Unlock()
	params := json.RawMessage(`{"notifications":{"resourceSubscriptions":[` + string(rawjson.Quote(uri)) + `]}}`)
	begun := r.background(func(context.Context) {
		defer cancel()
		defer func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.listens[uri] == this {
				delete(l.listens, uri)
			}
		}()
		for pause := listenPause; ; pause = min(2*pause, listenPauseMax) {
			began := time.Now()
			reply, err := s.Call(ctx, session.Request{Method: "subscriptions/listen", Params: params})
			if ctx.Err() != nil {
				return
			}
			if err == nil && reply.Error != nil {
				r.cfg.Logger.Debug("a server refuses a subscription", "server", l.server, "error", reply.Error)
				return
			}
			if time.Since(began) > listenPauseMax {
				pause = listenPause
			}
			select {
			case <-time.After(pause):
			case <-s.Done():
				return
			case <-ctx.Done():
				return
			}
		}
	})
	if !begun {
		cancel()
	}
}

// unlisten ends what listen has begun.
func (l *link) unlisten(uri string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if this := l.listens[uri]; this != nil {
		this.cancel()
		delete(l.listens, uri)
	}
}

// listening is an open subscription at a server.
type listening struct {
	s      session.Session
	cancel context.CancelFunc
}

// listens reports whether a session tells of updates by subscriptions/listen.
func listens(s session.Session) bool {
	return s != nil && s.Info().ProtocolVersion >= catalog.Stateless
}

// untagged takes the id of our subscription out of a notification, which means
// nothing to clients.
func untagged(params json.RawMessage) json.RawMessage {
	if !bytes.Contains(params, []byte(metaOurs)) {
		return params
	}
	meta := withoutOurs(rawjson.Get(params, "_meta"))
	if meta == nil {
		return rawjson.Delete(params, "_meta")
	}
	out, err := rawjson.Set(params, meta, "_meta")
	if err != nil {
		return params
	}
	return out
}
