package host

import (
	"context"
	"errors"
	"slices"

	"github.com/hermes-host/hermes-host/host/config"
	"github.com/hermes-host/hermes-host/host/launcher"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// A Plugin is a transport plugin that the host can use.
type Plugin struct {
	launcher.Kind
	Description launcher.Description // zero if Fault is not nil
	Fault       error                // why the plugin does not work
}

// Plugins starts every plugin that can be found and asks what it is. It is
// bounded by ctx and the launcher's own time limits.
func (h *Host) Plugins(ctx context.Context) []Plugin {
	var all []Plugin
	for _, kind := range h.launcher.Kinds() {
		p := Plugin{Kind: kind}
		p.Description, p.Fault = h.launcher.Describe(ctx, kind.Kind)
		all = append(all, p)
	}
	return all
}

// Resolve evaluates the whole configuration, with the help of the plugins that
// it names, and connects to nothing. The Config is nil if it cannot be used.
func (h *Host) Resolve(ctx context.Context) (*config.Config, config.Diagnostics) {
	h.mu.RLock()
	file := h.file
	h.mu.RUnlock()
	return file.Resolve(ctx, resolver{h.launcher})
}

// resolver answers the configuration's questions to plugins.
type resolver struct{ l *launcher.Launcher }

func (r resolver) Schema(ctx context.Context, kind string) ([]*transportpb.Attribute, error) {
	kinds := r.l.Kinds()
	if !slices.ContainsFunc(kinds, func(k launcher.Kind) bool { return k.Kind == kind }) {
		unknown := &config.UnknownKindError{Kind: kind}
		for _, k := range kinds {
			unknown.Known = append(unknown.Known, k.Kind)
		}
		return nil, unknown
	}
	return r.l.Schema(ctx, kind)
}

func (r resolver) Validate(ctx context.Context, kind string, block []byte) ([]*transportpb.Diagnostic, error) {
	return r.l.Validate(ctx, kind, block)
}

// commands are the plugin blocks as the launcher takes them.
func commands(plugins []config.Plugin) map[string]launcher.Command {
	all := make(map[string]launcher.Command, len(plugins))
	for _, p := range plugins {
		all[p.Kind] = launcher.Command{Path: p.Command, Args: p.Args, SHA256: p.SHA256, Env: p.Env}
	}
	return all
}

var errUnresolved = errors.New("the transport block could not be evaluated")
