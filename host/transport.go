package host

import (
	"context"
	"fmt"

	"github.com/hermes-host/hermes-host/host/config"
	"github.com/hermes-host/hermes-host/host/launcher"
	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/host/session"
)

// transport connects to one configured server. It adds to the launcher's what
// only the configuration knows: the place in the file that an error is about,
// the secrets that no error may show, and a second chance for servers whose
// plugin did not work when the file was read.
type transport struct {
	h      *Host
	cfg    *config.Config
	server config.Server
	inner  session.Transport // nil until the server is resolved
}

// Connect implements [session.Transport].
func (t *transport) Connect(ctx context.Context, handler session.Handler) (session.Session, error) {
	if t.inner == nil {
		if err := t.resolve(ctx); err != nil {
			return nil, err
		}
	}
	sess, err := t.inner.Connect(ctx, handler)
	if err != nil {
		return nil, t.explain(err)
	}
	return sess, nil
}

// resolve evaluates the transport block and makes the transport for it.
func (t *transport) resolve(ctx context.Context) error {
	if t.server.Fault != nil {
		server, diags := t.h.file.ResolveServer(ctx, resolver{t.h.launcher}, t.server.Name)
		switch {
		case server.Fault != nil:
			return t.explain(server.Fault)
		case diags.HasErrors():
			return &session.End{Class: session.ConfigFault, Message: t.cfg.Redact(fmt.Sprintf("%v: %s", errUnresolved, diags))}
		}
		t.server = server
	}
	t.inner = t.h.launcher.Transport(launcher.Spec{
		Server:             t.server.Name,
		Kind:               t.server.Transport.Kind,
		Config:             t.server.Transport.Config,
		Isolate:            t.server.Isolate,
		ClientCapabilities: relay.Capabilities(),
		MaxMessageBytes:    uint64(t.server.MaxMessage),
	})
	return nil
}

// explain makes an error fit to be shown.
func (t *transport) explain(err error) error {
	end := *session.AsEnd(err)
	end.Message = t.cfg.Redact(end.Message)
	if end.Class == session.ConfigFault {
		if place := t.server.RangeOf(end.Path); place != "" {
			end.Message = place + ": " + end.Message
		}
	}
	return &end
}
