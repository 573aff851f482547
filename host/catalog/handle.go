package catalog

import (
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

// List implements supervisor.Lister: it fetches lists, side by side, and
// publishes them in one step; entries that were withdrawn are back. Lists whose
// capability the server has not declared are empty and not asked for.
//
// A list that the server refuses keeps the entries that it had, status says
// why, and the error is a *supervisor.PartialError. If no answer comes, or all
// lists are refused, nothing is published and the error says why.
func (h *Handle) List(ctx context.Context, s session.Session, which supervisor.Lists) error {
	info := s.Info()
	var got [kinds]heard
	var no [kinds]*refusal
	group, ctx := errgroup.WithContext(ctx)
	var asked supervisor.Lists
	for kind := range kinds {
		if which&of[kind] != 0 && capable(info, kindFacts[kind].capability) {
			asked |= of[kind]
			group.Go(func() (err error) {
				got[kind], err = fetch(ctx, s, kind)
				if errors.As(err, &no[kind]) {
					return nil
				}
				return err
			})
		}
	}
	err := group.Wait()
	var partial supervisor.PartialError
	for kind, r := range no {
		if r != nil {
			partial.Lists |= of[kind]
			partial.Err = errors.Join(partial.Err, r)
		}
	}
	if err == nil && partial.Err != nil && partial.Lists == asked {
		err = partial.Err
	}
	if err != nil {
		return err // it names the method; the caller knows what for
	}
	defer h.settle()
	known := h.c.update(h.server, func(o *offer) bool {
		o.info, o.live, o.listed = info, true, true
		for kind := range kinds {
			switch {
			case no[kind] != nil:
				o.heard[kind].note = "refused by the server, and asked for again: " + no[kind].Error()
			case which&of[kind] != 0:
				o.heard[kind] = got[kind]
			}
		}
		o.configure(o.cfg)
		return true
	})
	if !known {
		return fmt.Errorf("server %q is no longer configured", h.server)
	}
	if partial.Err != nil {
		return &partial
	}
	return nil
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
