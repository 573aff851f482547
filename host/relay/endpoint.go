package relay

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/internal/rawjson"
)

// endpoint implements Endpoint.
type endpoint struct {
	r      *Relay
	server string // the one server that it offers; "": it offers several
	cat    *catalog.Endpoint

	described atomic.Pointer[described]

	mu      sync.RWMutex
	clients map[string]*joined
}

// described is a Description with the view that it was made of.
type described struct {
	view *catalog.View
	Description
}

// joined is a client between Join and Leave.
type joined struct {
	Client
	level atomic.Int32 // the level that it asked for; 0 is none
	// lists are the sums of the lists that it was given last, or of those that
	// there were when it joined: of changes before that it has nothing to hear.
	// It is 0 for one that it was told to fetch anew.
	lists [catalog.Kinds]atomic.Uint64
}

// given notes that a client has been given a list.
func (e *endpoint) given(c Client, kind catalog.Kind, sum uint64) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if j := e.clients[c.ID()]; j != nil {
		j.lists[kind].Store(sum)
	}
}

// tell tells clients what has changed, except those that have been given the
// lists as they are now.
func (e *endpoint) tell(change catalog.Change) {
	view := e.cat.View()
	for _, j := range e.joined() {
		if change.Tools && j.outdated(view, catalog.Tools) {
			j.Notify("notifications/tools/list_changed", nil)
		}
		if change.Prompts && j.outdated(view, catalog.Prompts) {
			j.Notify("notifications/prompts/list_changed", nil)
		}
		if change.Resources && j.outdated(view, catalog.Resources, catalog.Templates) {
			j.Notify("notifications/resources/list_changed", nil)
		}
	}
}

// outdated reports whether the client has one of these lists as it no longer
// is, and notes that it is told so.
func (j *joined) outdated(view *catalog.View, kinds ...catalog.Kind) bool {
	stale := false
	for _, kind := range kinds {
		if had := j.lists[kind].Load(); had != view.Sum(kind) {
			stale = true
			j.lists[kind].CompareAndSwap(had, 0)
		}
	}
	return stale
}

var _ Endpoint = (*endpoint)(nil)

// Join implements Endpoint.
func (e *endpoint) Join(c Client) {
	j := &joined{Client: c}
	view := e.cat.View()
	for kind := range j.lists {
		j.lists[kind].Store(view.Sum(catalog.Kind(kind)))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.clients[c.ID()] = j
}

// Leave implements Endpoint. What the client had subscribed to and nobody else
// wants is cancelled upstream in the background.
func (e *endpoint) Leave(c Client) {
	e.mu.Lock()
	was := e.clients[c.ID()]
	delete(e.clients, c.ID())
	e.mu.Unlock()
	if was == nil {
		return
	}
	for _, server := range e.cat.View().Servers() {
		l := e.r.link(server, nil)
		e.r.forget(l, c)
		if was.level.Load() != 0 {
			e.r.relevel(l)
		}
	}
	e.r.unlink(c)
	if e.r.cfg.Left != nil {
		e.r.cfg.Left(c)
	}
}

// joined returns the clients that have joined. They are told things without
// e's lock, so that a client may leave on being told.
func (e *endpoint) joined() []*joined {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return slices.Collect(maps.Values(e.clients))
}

// with returns the endpoints that include a server and have been used.
func (r *Relay) with(server string) []*endpoint {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []*endpoint
	for _, e := range r.endpoints {
		if e.cat.Includes(server) {
			all = append(all, e)
		}
	}
	return all
}

// What the aggregate can do is always declared, since servers come and go
// within a client's session.
const aggregateCapabilities = `{"completions":{},"logging":{},"prompts":{"listChanged":true},` +
	`"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}}`

// Bounds of the aggregate's instructions, in bytes.
const (
	maxInstructions = 32 << 10
	maxOfOne        = 8 << 10
)

// Describe implements Endpoint. A server alone is described in its own words
// as far as they have been heard, except that its lists can change: they do
// when it parks and comes back, which some clients would not listen for.
func (e *endpoint) Describe() Description {
	view := e.cat.View()
	if d := e.described.Load(); d != nil && d.view == view {
		return d.Description
	}
	d := &described{view, e.describe(view)}
	e.described.Store(d)
	return d.Description
}

func (e *endpoint) describe(view *catalog.View) Description {
	d := Description{ServerInfo: e.r.cfg.ServerInfo, Capabilities: json.RawMessage(aggregateCapabilities)}
	if e.server != "" {
		info, ok := e.r.cfg.Catalog.Info(e.server)
		if !ok {
			return d
		}
		d.Instructions = info.Instructions
		d.Capabilities = json.RawMessage(`{}`)
		if info.Capabilities != nil {
			d.Capabilities = listChanging(info.Capabilities)
		}
		if info.ServerInfo != nil {
			d.ServerInfo = info.ServerInfo
		}
		return d
	}
	var text strings.Builder
	for server, info := range view.Infos {
		part := strings.TrimSpace(info.Instructions)
		if part == "" {
			continue
		}
		part = cut(part, maxOfOne)
		if prefix := view.Prefix(server); prefix != "" {
			part = "Here the names of its tools and prompts begin with `" + prefix + "`.\n\n" + part
		}
		part = "# " + server + "\n\n" + part
		if text.Len() > 0 {
			part = "\n\n" + part
		}
		if text.Len()+len(part) > maxInstructions {
			break
		}
		text.WriteString(part)
	}
	d.Instructions = text.String()
	return d
}

// listChanging returns ServerCapabilities with listChanged for the lists that
// they have.
func listChanging(capabilities json.RawMessage) json.RawMessage {
	for _, list := range []string{"tools", "prompts", "resources"} {
		if has(capabilities, list) && string(rawjson.Get(capabilities, list, "listChanged")) != "true" {
			if with, err := rawjson.Set(capabilities, []byte("true"), list, "listChanged"); err == nil {
				capabilities = with
			}
		}
	}
	return capabilities
}

// cut shortens text to n bytes, between runes.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

// Notification implements Endpoint. On a server's own endpoint a client's
// notifications reach the server. Where several servers are offered nothing
// says which is meant; only a change of the roots concerns each session that
// the client has for itself. Shared sessions never hear of roots.
func (e *endpoint) Notification(_ context.Context, c Client, method string, params json.RawMessage) {
	roots := method == "notifications/roots/list_changed"
	switch {
	case method == "notifications/initialized", method == "notifications/cancelled":
	case e.server != "" && (!roots || e.r.private(e.server, c)):
		e.notify(e.server, c, method, params)
	case e.server == "" && roots:
		for _, server := range e.cat.View().Servers() {
			if e.r.private(server, c) {
				e.notify(server, c, method, params)
			}
		}
	}
}

// notify passes a notification on to a server's session, if there is one.
func (e *endpoint) notify(server string, c Client, method string, params json.RawMessage) {
	var srv Server
	if e.r.private(server, c) {
		srv = e.r.serverOf(e.r.link(server, c))
	} else {
		srv, _ = e.r.cfg.Lookup(server, nil)
	}
	if srv == nil {
		return
	}
	if s := srv.Session(); s != nil {
		if err := s.Notify(method, params); err != nil {
			e.r.cfg.Logger.Debug("a client's notification was not delivered", "server", server, "method", method, "error", err)
		}
	}
}
