package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hermes-host/hermes-host/host/admin"
	"github.com/hermes-host/hermes-host/host/config"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

// Reload reads the configuration again and applies what is different in it, on
// behalf of whoever by names. It is refused whole, with an *[admin.Error], if
// anything is wrong with it; nothing has changed then. With dryRun it says what
// would change and applies nothing.
//
// Servers that are the same go on untouched. Those that have gone stop first.
// A changed one goes on until its new session is up, and with the calls that
// it has until they are answered, for a bounded time. Where only its lists
// change (filters, prefix, order) its session stays. Reload returns when all
// new sessions of changed servers are up or given up for now; servers that
// are new come up in their own time.
//
// One reload runs at a time, others wait. When ctx ends before anything was
// applied, nothing is.
func (h *Host) Reload(ctx context.Context, by string, dryRun bool) (admin.Changes, error) {
	return h.reload(ctx, by, dryRun, "")
}

// Preview says what a reload would change if the configuration were what is in
// another file. It applies nothing.
func (h *Host) Preview(ctx context.Context, path string) (admin.Changes, error) {
	return h.reload(ctx, "", true, path)
}

func (h *Host) reload(ctx context.Context, by string, dryRun bool, path string) (admin.Changes, error) {
	select {
	case h.reloading <- struct{}{}:
		defer func() { <-h.reloading }()
	case <-ctx.Done():
		return admin.Changes{}, context.Cause(ctx)
	case <-h.life.Done():
		return admin.Changes{}, stopping()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.life, cancel)()
	p, err := h.plan(ctx, path)
	if h.life.Err() != nil {
		return admin.Changes{}, stopping()
	}
	if err != nil {
		if !dryRun {
			h.refused(by, err)
		}
		return admin.Changes{}, err
	}
	p.changes.DryRun = dryRun
	if dryRun {
		return p.changes, nil
	}
	err = h.apply(p)
	h.reloaded(by, p.changes, err)
	return p.changes, err
}

func stopping() *admin.Error {
	return &admin.Error{Code: admin.Stopping, Message: errStopped.Error()}
}

// plan reads and checks the configuration, or what is in another file if path is
// not empty.
func (h *Host) plan(ctx context.Context, path string) (*plan, error) {
	if h.settings.Load == nil {
		return nil, &admin.Error{Code: admin.Unsupported, Message: "this host can't read its configuration again"}
	}
	h.mu.RLock()
	running, stopped := h.cfg, h.stopped
	h.mu.RUnlock()
	switch {
	case stopped:
		return nil, stopping()
	case running == nil:
		return nil, &admin.Error{Code: admin.Unsupported, Message: "the host has not started yet"}
	}
	file, diags := h.settings.Load(path)
	if file == nil {
		return nil, wrong(diags)
	}
	l := h.launcher
	if len(otherPlugins(running.Plugins, file.Plugins)) > 0 {
		// The plugins that run are not to be disturbed by a configuration
		// that may be refused.
		spare, err := h.launcher.Spare(commands(file.Plugins))
		if err != nil {
			return nil, err
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
		return nil, context.Cause(ctx)
	}
	if cfg == nil || diags.Fatal() || h.worse(cfg) {
		return nil, wrong(diags)
	}
	p := h.compare(file, cfg)
	p.changes.Warnings = diags.Lines()
	return p, nil
}

// worse reports whether a configuration has a server whose plugin does not
// work, other than those that were so before: such a server has nothing to
// lose, and must not keep others from being changed.
func (h *Host) worse(cfg *config.Config) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, s := range cfg.Servers {
		if m := h.members[s.Name]; s.Fault != nil && s.Enabled && (m == nil || m.server.Load().Fault == nil) {
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

// apply carries a plan out. The error says what kept it from that.
func (h *Host) apply(p *plan) error {
	h.mu.Lock()
	if h.stopped {
		h.mu.Unlock()
		return stopping()
	}
	was := struct {
		file  *config.File
		cfg   *config.Config
		order []config.Server
	}{h.file, h.cfg, h.order}
	earlier := map[*member]*config.Server{}
	for _, m := range p.removed {
		delete(h.members, m.name)
	}
	for _, s := range p.kept {
		m := h.members[s.Name]
		earlier[m] = m.server.Swap(&s)
	}
	h.file, h.cfg, h.order = p.file, p.cfg, p.cfg.Servers
	if err := h.present(); err != nil { // for one, a pattern that the catalog does not take
		for m, s := range earlier {
			m.server.Store(s)
		}
		for _, m := range p.removed {
			h.members[m.name] = m
		}
		h.file, h.cfg, h.order = was.file, was.cfg, was.order
		h.mu.Unlock()
		return &admin.Error{Code: admin.Refused, Message: err.Error()}
	}
	h.generation.Add(1)
	h.redactor.Store(p.cfg)
	h.mu.Unlock()

	if p.plugins {
		h.launcher.SetCommands(commands(p.file.Plugins))
	}
	h.remove(p.removed)
	if g := h.gateway.Load(); g != nil {
		for _, m := range p.removed {
			g.End(m.name)
		}
		for _, e := range was.cfg.Endpoints {
			if !slices.ContainsFunc(p.cfg.Endpoints, func(o config.Endpoint) bool { return o.Name == e.Name }) {
				g.End(e.Name)
			}
		}
	}
	h.mu.Lock()
	for _, s := range p.added {
		if h.stopped {
			break
		}
		m := h.member(p.file, p.cfg, s, nil)
		if !s.Enabled {
			m.turn.Withdraw()
		}
		h.members[s.Name] = m
		m.start()
	}
	h.mu.Unlock()
	var replacing sync.WaitGroup
	for i, s := range p.replaced {
		h.mu.RLock()
		old := h.members[s.Name]
		h.mu.RUnlock()
		replacing.Go(func() {
			p.changes.Replaced[i].Trouble = h.replace(old, h.member(p.file, p.cfg, s, old))
		})
	}
	replacing.Wait()
	return nil
}

// trouble says why a member is not ready, "" if it is.
func trouble(m *member) string {
	s := m.sup.Status()
	switch s.State {
	case supervisor.Ready, supervisor.Disabled:
		return ""
	case supervisor.Parked:
		return m.cfg.Redact("it is parked: " + s.Reason)
	}
	text := fmt.Sprintf("it is %s, and was not ready within %s", s.State, comingUp)
	if s.LastError != "" {
		text += ": " + s.LastError
	}
	return m.cfg.Redact(text)
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
			"replaced", namesOf(c.Replaced), "updated", namesOf(c.Updated), "order", c.Order, "host", c.Live)
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
