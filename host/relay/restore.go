package relay

import (
	"context"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/internal/rawjson"
)

// Introduce tells a session, if it is new, what clients want to hear from its
// server: their subscriptions and log level, which so outlive the sessions. It
// does not wait for that. Whoever fetches the lists of a session calls it
// before.
func (r *Relay) Introduce(server string, s session.Session) { r.introduce(r.link(server, nil), s) }

func (r *Relay) introduce(l *link, s session.Session) {
	if !l.knows(s) {
		r.background(func(ctx context.Context) { r.restoreInTurn(ctx, l, s) })
	}
}

// prepare waits until a client's own session knows what the client has asked
// for before the session was there: to the client that was long ago. The error
// says that no session came.
func (r *Relay) prepare(ctx context.Context, srv Server, l *link) error {
	s, err := meet(ctx, srv)
	if s == nil || l.isReady(s) {
		return err
	}
	restored := make(chan struct{})
	begun := r.background(func(ctx context.Context) {
		defer close(restored)
		r.restoreInTurn(ctx, l, s)
	})
	if begun {
		select {
		case <-restored:
		case <-ctx.Done():
		}
	}
	return nil
}

func (r *Relay) restoreInTurn(ctx context.Context, l *link, s session.Session) {
	if l.take(ctx) != nil {
		return
	}
	defer l.give()
	r.restore(ctx, l, s)
}

// isReady reports whether a session has been told all.
func (l *link) isReady(s session.Session) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ready == s
}

// knows reports whether a session has been told, or is being told.
func (l *link) knows(s session.Session) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told == s
}

// restore brings a session up to what its predecessor knew, once. The caller
// has the link's turn.
func (r *Relay) restore(ctx context.Context, l *link, s session.Session) {
	if l.knows(s) {
		return
	}
	l.mu.Lock()
	l.told, l.at = s, 0
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ready = s
	}()
	r.tellLevel(ctx, l, s)
	l.mu.Lock()
	uris := make([]string, 0, len(l.subs))
	for uri := range l.subs {
		uris = append(uris, uri)
	}
	l.mu.Unlock()
	if string(rawjson.Get(s.Info().Capabilities, "resources", "subscribe")) != "true" {
		return
	}
	for _, uri := range uris {
		select {
		case <-s.Done():
			return
		default:
		}
		if l.wants(uri) {
			r.tellURI(ctx, l, s, "resources/subscribe", uri)
		}
	}
}
