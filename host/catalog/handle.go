package catalog

import (
	"context"
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
// capability the server has not declared are empty and not asked for. If one
// list fails nothing is published and the error says which.
func (h *Handle) List(ctx context.Context, s session.Session, which supervisor.Lists) error {
	info := s.Info()
	var got [kinds]heard
	group, ctx := errgroup.WithContext(ctx)
	for kind := range kinds {
		if which&of[kind] != 0 && capable(info, kindFacts[kind].capability) {
			group.Go(func() (err error) {
				got[kind], err = fetch(ctx, s, kind)
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("listing what server %q offers: %w", h.server, err)
	}
	defer h.settle()
	known := h.c.update(h.server, func(o *offer) bool {
		o.info, o.live, o.listed = info, true, true
		for kind := range kinds {
			if which&of[kind] != 0 {
				o.heard[kind] = got[kind]
			}
		}
		o.configure(o.cfg)
		return true
	})
	if !known {
		return fmt.Errorf("listing what server %q offers: it is no longer configured", h.server)
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
