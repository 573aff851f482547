package host

import (
	"context"
	"fmt"

	"github.com/hermes-host/hermes-host/host/launcher"
	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/host/session"
)

// transport connects to one configured server. It adds to the launcher's what
// only the configuration knows: the place in the file that an error is about,
// the secrets that no error may show, and a second chance for servers whose
// plugin did not work when the file was read.
type transport struct {
	m      *member
	client relay.Client      // whose own session it is; nil: all clients'
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
	t.m.advise()
	return sess, nil
}

// resolve evaluates the transport block and makes the transport for it.
func (t *transport) resolve(ctx context.Context) error {
	m := t.m
	if m.server.Load().Fault != nil {
		server, diags := m.file.ResolveServer(ctx, resolver{m.h.launcher}, m.name)
		switch {
		case server.Fault != nil:
			return t.explain(server.Fault)
		case diags.HasErrors():
			return &session.End{Class: session.ConfigFault, Message: m.cfg.Redact(fmt.Sprintf("%v: %s", errUnresolved, diags))}
		}
		m.server.Store(&server)
	}
	server := m.server.Load()
	t.inner = m.h.launcher.Transport(launcher.Spec{
		Server:             server.Name,
		Kind:               server.Transport.Kind,
		Config:             server.Transport.Config,
		ProtocolVersion:    server.Protocol,
		ClientVersion:      t.version(),
		Memory:             &m.memory,
		Isolate:            server.Isolate,
		ClientCapabilities: t.declares(server),
		ClientInfo:         t.introduces(),
		MaxMessageBytes:    uint64(server.MaxMessage),
	})
	return nil
}

// explain makes an error fit to be shown.
func (t *transport) explain(err error) error {
	end := *session.AsEnd(err)
	end.Message = t.m.cfg.Redact(end.Message)
	if end.Class == session.ConfigFault {
		if place := t.m.server.Load().RangeOf(end.Path); place != "" {
			end.Message = place + ": " + end.Message
		}
	}
	return &end
}
