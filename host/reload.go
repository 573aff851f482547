package host

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hermes-host/hermes-host/host/admin"
	"github.com/hermes-host/hermes-host/host/config"
)

// Reload reads the configuration again and applies what is different in it, on
// behalf of whoever by names. It is refused whole, with an *[admin.Error], if
// anything is wrong with it; nothing has changed then. With dryRun it says what
// would change and applies nothing.
//
// Servers that are the same go on untouched. Those that have gone stop before
// those that are new start. A changed one goes on until its new session is up,
// and with the calls that it has until they are answered, for a bounded time.
// Where only its lists change (filters, prefix, order) its session stays. Reload
// returns when what has gone has ended and all new sessions of changed servers
// are up or given up for now, or when ctx ends; servers that are new come up in
// their own time.
//
// A reload that comes while another waits for such things goes past it. If it
// changes a server again whose new session is still coming up, that session is
// given up, which the other then says; if not, both wait for it. When ctx ends
// before anything was applied, nothing is.
func (h *Host) Reload(ctx context.Context, by string, dryRun bool) (admin.Changes, error) {
	changes, wait, err := h.reload(ctx, by, dryRun, "")
	if err == nil {
		wait(ctx, &changes)
	}
	return changes, err
}

// Apply is Reload for whoever does not need to know how it ends: it does not wait
// for what it has begun.
func (h *Host) Apply(ctx context.Context, by string) (admin.Changes, error) {
	changes, _, err := h.reload(ctx, by, false, "")
	return changes, err
}

// Preview says what a reload would change if the configuration were what is in
// another file. It applies nothing.
func (h *Host) Preview(ctx context.Context, path string) (admin.Changes, error) {
	changes, _, err := h.reload(ctx, "", true, path)
	return changes, err
}

// awaiting waits for what a reload has begun, and completes its changes.
type awaiting func(context.Context, *admin.Changes)

// reload begins a reload. One at a time gets as far as that.
func (h *Host) reload(ctx context.Context, by string, dryRun bool, path string) (admin.Changes, awaiting, error) {
	select {
	case h.reloading <- struct{}{}:
		defer func() { <-h.reloading }()
	case <-ctx.Done():
		return admin.Changes{}, nil, context.Cause(ctx)
	case <-h.life.Done():
		return admin.Changes{}, nil, stopping()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.life, cancel)()
	file, cfg, warnings, err := h.read(ctx, path)
	if h.life.Err() != nil {
		return admin.Changes{}, nil, stopping()
	}
	if err != nil {
		if !dryRun {
			h.refused(by, err)
		}
		return admin.Changes{}, nil, err
	}
	if dryRun {
		h.mu.RLock()
		changes := h.compare(file, cfg).changes
		h.mu.RUnlock()
		changes.DryRun, changes.Warnings = true, warnings
		return changes, func(context.Context, *admin.Changes) {}, nil
	}
	changes, wait, err := h.apply(file, cfg)
	changes.Warnings = warnings
	h.reloaded(by, changes, err)
	return changes, wait, err
}

func stopping() *admin.Error {
	return &admin.Error{Code: admin.Stopping, Message: errStopped.Error()}
}

// read reads and checks the configuration, or what is in another file if path is
// not empty. It returns warnings, too.
func (h *Host) read(ctx context.Context, path string) (*config.File, *config.Config, []string, error) {
	if h.settings.Load == nil {
		return nil, nil, nil, &admin.Error{Code: admin.Unsupported, Message: "this host can't read its configuration again"}
	}
	h.mu.RLock()
	running, stopped := h.cfg, h.stopped
	h.mu.RUnlock()
	switch {
	case stopped:
		return nil, nil, nil, stopping()
	case running == nil:
		return nil, nil, nil, &admin.Error{Code: admin.Unsupported, Message: "the host has not started yet"}
	}
	file, diags := h.settings.Load(path)
	if file == nil {
		return nil, nil, nil, wrong(diags)
	}
	l := h.launcher
	if len(otherPlugins(running.Plugins, file.Plugins)) > 0 {
		// The plugins that run are not to be disturbed by a configuration
		// that may be refused.
		spare, err := h.launcher.Spare(commands(file.Plugins))
		if err != nil {
			return nil, nil, nil, err
		}
		defer func() {
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
			defer cancel()
			spare.Close(bounded)
		}()
		l = spare
	}
	cfg, diags := file.Resolve(ctx, resolver{l})
	if ctx.Err() != nil {
		return nil, nil, nil, context.Cause(ctx)
	}
	if cfg == nil || diags.Fatal() || h.worse(cfg) {
		return nil, nil, nil, wrong(diags)
	}
	return file, cfg, diags.Lines(), nil
}

// worse reports whether a configuration has a server whose plugin does not
// work, other than those that were so before: such a server has nothing to
// lose, and must not keep others from being changed.
func (h *Host) worse(cfg *config.Config) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, s := range cfg.Servers {
		m := h.members[s.Name]
		if n := h.pending[s.Name]; n != nil {
			m = n.m
		}
		if s.Fault != nil && s.Enabled && (m == nil || m.server.Load().Fault == nil) {
			return true
		}
	}
	return false
}

func wrong(diags config.Diagnostics) *admin.Error {
	e := &admin.Error{Code: admin.Refused, Message: "the configuration is wrong", Diagnostics: diags.Lines(), Text: diags.String()}
	if err := diags.Err(); err != nil {
		e.Message = err.Error()
	}
	return e
}

// apply makes a configuration the one that counts. It returns as soon as
// everything is on its way, with the changes, and a function that waits for it.
// The error says what kept it from that.
func (h *Host) apply(file *config.File, cfg *config.Config) (admin.Changes, awaiting, error) {
	h.mu.Lock()
	p, gone, err := h.adopt(file, cfg)
	h.mu.Unlock()
	if err != nil {
		return admin.Changes{}, nil, err
	}
	if p.plugins {
		h.launcher.SetCommands(commands(file.Plugins))
	}
	if g := h.gateway.Load(); g != nil { // not under h.mu: it ends sessions
		for _, name := range p.endpoints {
			g.End(name)
		}
	}
	h.mu.Lock()
	replaced := h.begin(p)
	h.mu.Unlock()
	return p.changes, func(ctx context.Context, c *admin.Changes) {
		for _, left := range gone {
			select {
			case <-left:
			case <-ctx.Done():
			}
		}
		for i, n := range replaced {
			c.Replaced[i].Trouble = n.outcome(ctx)
		}
		for i, n := range p.waiting {
			c.Waiting[i].Trouble = n.outcome(ctx)
		}
	}, nil
}

// adopt is the part of apply that can fail: it takes over what is in a
// configuration for the lists, and begins to end what is not in it any more. It
// returns what is left to do, and a channel for each server that has gone, which
// is closed when nothing is left of it. The caller holds h.mu.
func (h *Host) adopt(file *config.File, cfg *config.Config) (*plan, []<-chan struct{}, error) {
	if h.stopped {
		return nil, nil, stopping()
	}
	p := h.compare(file, cfg)
	was := struct {
		file  *config.File
		cfg   *config.Config
		order []config.Server
	}{h.file, h.cfg, h.order}
	earlier := map[*member]*config.Server{}
	for _, m := range p.removed {
		delete(h.members, m.name)
	}
	for m, s := range p.kept {
		earlier[m] = m.server.Swap(&s)
	}
	h.file, h.cfg, h.order = file, cfg, cfg.Servers
	if err := h.present(); err != nil { // for one, a pattern that the catalog does not take
		for m, s := range earlier {
			m.server.Store(s)
		}
		for _, m := range p.removed {
			h.members[m.name] = m
		}
		h.file, h.cfg, h.order = was.file, was.cfg, was.order
		return nil, nil, &admin.Error{Code: admin.Refused, Message: err.Error()}
	}
	h.generation.Add(1)
	h.redactor.Store(cfg)
	for _, name := range p.dropped {
		h.drop(name)
	}
	var gone []<-chan struct{}
	for _, m := range p.removed {
		gone = append(gone, h.remove(m))
	}
	return p, gone, nil
}

// begin starts what is new in a configuration, and returns the successions of
// the servers that are replaced. The caller holds h.mu.
func (h *Host) begin(p *plan) (replaced []*succession) {
	if h.stopped {
		return nil
	}
	for _, s := range p.added {
		m := h.member(p.file, p.cfg, s, nil)
		if !s.Enabled {
			m.turn.Withdraw()
		}
		h.members[s.Name] = m
		// It may need what one that was removed holds.
		after := slices.Clone(p.removed)
		if before := h.ending[s.Name]; before != nil {
			after = append(after, before)
		}
		m.start(after)
	}
	for i, s := range p.replaced {
		replaced = append(replaced, h.succeed(p.file, p.cfg, s, p.changes.Replaced[i].Settings))
	}
	return replaced
}

// outcome waits for the end of a succession, or of ctx, and says why the new
// session was not up then.
func (n *succession) outcome(ctx context.Context) string {
	select {
	case <-n.over:
		return n.trouble
	case <-ctx.Done():
		return "its new session was not waited for"
	}
}

// refused and reloaded log the outcome of a reload, and keep it for status and
// events.
func (h *Host) refused(by string, err error) {
	h.outcome.Store(&admin.Reloaded{At: time.Now(), By: by, Error: err.Error()})
	h.log.Error("configuration refused; everything goes on as it was", "by", by, "error", err)
	if e, ok := errors.AsType[*admin.Error](err); ok && len(e.Diagnostics) > 1 {
		for _, line := range e.Diagnostics {
			h.log.Error(line)
		}
	}
	h.note("configuration refused, by "+by, err.Error())
}

func (h *Host) reloaded(by string, c admin.Changes, err error) {
	if err != nil {
		h.refused(by, err)
		return
	}
	h.outcome.Store(&admin.Reloaded{At: time.Now(), By: by})
	for _, line := range c.Warnings {
		h.log.Warn(line)
	}
	if c.None() {
		h.log.Info("configuration read again: nothing has changed", "by", by)
	} else {
		h.log.Info("configuration applied", "by", by, "added", c.Added, "removed", c.Removed,
			"replaced", namesOf(c.Replaced), "updated", namesOf(c.Updated), "order", c.Order, "host", c.Live, "dropped", c.Dropped)
	}
	if len(c.Restart) > 0 {
		h.log.Warn("settings have changed that only a restart of the host applies", "settings", c.Restart)
	}
	h.note("configuration applied, by "+by+": "+c.Summary(maxSummary), "")
}

// maxSummary bounds what an event tells of a reload, in bytes.
const maxSummary = 1 << 10

func namesOf(changes []admin.Change) []string {
	names := make([]string, len(changes))
	for i, c := range changes {
		names[i] = c.Server
	}
	return names
}
