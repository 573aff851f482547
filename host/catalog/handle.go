package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
	"github.com/hermes-host/hermes-host/internal/rawjson"
)

// A Handle is how one server's supervisor keeps the catalog up to date.
type Handle struct {
	c       *Catalog
	server  string
	once    sync.Once
	settled chan struct{} // closed after the first List or Withdraw
}

func (h *Handle) settle() { h.once.Do(func() { close(h.settled) }) }

var _ supervisor.Lister = (*Handle)(nil)

// of says which of a supervisor's lists a kind belongs to.
var of = [kinds]supervisor.Lists{
	Tools: supervisor.Tools, Resources: supervisor.Resources, Templates: supervisor.Resources, Prompts: supervisor.Prompts,
}

// List implements supervisor.Lister: it fetches lists and publishes them. The
// error is that of Fetch or Publish.
func (h *Handle) List(ctx context.Context, s session.Session, which supervisor.Lists) error {
	l, err := h.Fetch(ctx, s, which)
	if l != nil {
		if err := h.Publish(l); err != nil {
			return err
		}
	}
	return err
}

// A Listing is what a server has said of its lists. It does not change.
type Listing struct {
	info session.Info
	got  [kinds]*heard   // nil: not asked for, or refused
	no   [kinds]*refusal // nil: not refused
}

// Then returns what l and a later listing of the same server say together. L
// may be nil.
func (l *Listing) Then(later *Listing) *Listing {
	if l == nil {
		return later
	}
	both := *l
	both.info = later.info
	for kind := range kinds {
		switch {
		case later.got[kind] != nil:
			both.got[kind], both.no[kind] = later.got[kind], nil
		case later.no[kind] != nil:
			both.no[kind] = later.no[kind]
		}
	}
	return &both
}

// Fetch asks a session for lists, side by side. Lists whose capability the
// server has not declared are empty and not asked for.
//
// If the server refuses some, the error is a *supervisor.PartialError, and
// there is a listing of the others. If no answer comes, or all lists are
// refused, there is none, and the error says why.
func (h *Handle) Fetch(ctx context.Context, s session.Session, which supervisor.Lists) (*Listing, error) {
	l := &Listing{info: s.Info()}
	group, ctx := errgroup.WithContext(ctx)
	var asked supervisor.Lists
	for kind := range kinds {
		if which&of[kind] == 0 {
			continue
		}
		if !capable(l.info, kindFacts[kind].capability) {
			l.got[kind] = &heard{}
			continue
		}
		asked |= of[kind]
		group.Go(func() error {
			got, err := fetch(ctx, s, kind)
			if errors.As(err, &l.no[kind]) {
				return nil
			}
			l.got[kind] = &got
			return err
		})
	}
	err := group.Wait()
	var partial supervisor.PartialError
	for kind, r := range l.no {
		if r != nil {
			partial.Lists |= of[kind]
			partial.Err = errors.Join(partial.Err, r)
		}
	}
	if err == nil && partial.Err != nil && partial.Lists == asked {
		err = partial.Err
	}
	switch {
	case err != nil:
		return nil, err // it names the method; the caller knows what for
	case partial.Err != nil:
		return l, &partial
	}
	return l, nil
}

// Publish replaces the server's lists by those of a listing, in one step;
// entries that were withdrawn are back. Of a list that was refused the former
// entries stay, and status says why. The error is that the server is no longer
// configured.
func (h *Handle) Publish(l *Listing) error {
	defer h.settle()
	known := h.c.update(h.server, func(o *offer) bool {
		if o.shows(l) {
			return false // most new sessions list what the last one did
		}
		o.info, o.live, o.listed = l.info, true, true
		for kind := range kinds {
			if l.got[kind] != nil {
				o.heard[kind] = *l.got[kind]
			}
			if l.no[kind] != nil {
				o.heard[kind].note = "refused by the server, and asked for again: " + l.no[kind].Error()
			}
		}
		o.configure(o.cfg)
		return true
	})
	if !known {
		return fmt.Errorf("server %q is no longer configured", h.server)
	}
	return nil
}

// shows reports whether publishing a listing would change nothing.
func (o *offer) shows(l *Listing) bool {
	if !o.live || !o.listed || l.info.Result == nil || !bytes.Equal(o.info.Result, l.info.Result) || o.info.ProtocolVersion != l.info.ProtocolVersion {
		return false
	}
	for kind := range kinds {
		if l.no[kind] != nil || l.got[kind] != nil && !o.heard[kind].equal(l.got[kind]) {
			return false
		}
	}
	return true
}

// Withdraw takes the server's entries out of the lists. Their names stay
// known, so that a call still finds its way to the server and is told that it
// is reconnecting. Withdrawing again changes nothing.
func (h *Handle) Withdraw() {
	defer h.settle()
	h.c.update(h.server, func(o *offer) bool {
		was := o.live
		o.live = false
		return was
	})
}

func capable(info session.Info, capability string) bool {
	c := rawjson.Get(info.Capabilities, capability)
	return c != nil && c[0] == '{'
}
