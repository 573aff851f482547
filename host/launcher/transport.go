package launcher

import (
	"context"
	"encoding/json"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// A Spec says how one server is reached.
type Spec struct {
	// Server is its name in the configuration, for logs.
	Server string

	// Kind is the label of its transport block.
	Kind string

	// Config is the transport block as a JSON object that conforms to the
	// plugin's schema.
	Config json.RawMessage

	// Isolate decides whether each session has a process of its own (true),
	// or shares the one of its kind (false). Nil: as the plugin describes.
	Isolate *bool

	// ClientCapabilities is the MCP ClientCapabilities object that the
	// server is told. Nil: {}.
	ClientCapabilities json.RawMessage

	// ClientInfo is the MCP Implementation object that the server is told.
	// Nil: that of Settings.
	ClientInfo json.RawMessage

	// ProtocolVersion is the newest MCP version to offer. Empty: the newest
	// that the plugin knows.
	ProtocolVersion string

	// ClientVersion is the MCP version of the one client whose session it is,
	// to be tried first. Empty: the session is for many clients.
	ClientVersion string

	// Memory is what earlier sessions with the server have taught, and is
	// added to. Nil: each session begins without knowledge.
	Memory *Memory

	// SkipDiscover begins with initialize instead of server/discover.
	SkipDiscover bool

	// MaxMessageBytes bounds a message from the server. 0: as large as a
	// message between host and plugin can be.
	MaxMessageBytes uint64
}

// Transport returns the transport to one server. Nothing is started before its
// Connect is called.
//
// Its sessions hold a process, or a share of one, until Session.Close, also
// after they have ended: Close must be called for each.
func (l *Launcher) Transport(s Spec) session.Transport {
	return &transport{launcher: l, spec: s}
}

type transport struct {
	launcher *Launcher
	spec     Spec
}

// Connect starts the plugin or shares it, and opens a session. When it fails,
// nothing is left of what it started.
func (t *transport) Connect(ctx context.Context, h session.Handler) (session.Session, error) {
	l := t.launcher
	if err := l.enter(); err != nil {
		return nil, err
	}
	defer l.running.Done()
	p, own, err := l.acquire(ctx, t.spec.Kind, t.spec.Isolate)
	if err != nil {
		return nil, err
	}
	s, err := t.open(ctx, p, own, h)
	if err == nil {
		if err = s.initialised(ctx); err == nil {
			return s, nil
		}
		s.judge(ctx)
		s.quit()
	}
	// Its process gets a moment to end in order, unless ctx has ended: then
	// nobody waits.
	if ctx.Err() == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), l.timing.settle)
		defer cancel()
	}
	s.leave(ctx)
	return nil, err
}

// message is what asks for a session with the server.
func (s Spec) message(clientInfo json.RawMessage) *transportpb.OpenSession {
	capabilities := s.ClientCapabilities
	if capabilities == nil {
		capabilities = json.RawMessage("{}")
	}
	if s.ClientInfo != nil {
		clientInfo = s.ClientInfo
	}
	return &transportpb.OpenSession{
		Server:             s.Server,
		Config:             s.Config,
		ClientInfo:         clientInfo,
		ClientCapabilities: capabilities,
		ProtocolVersion:    s.ProtocolVersion,
		ClientVersion:      s.ClientVersion,
		SkipDiscover:       s.SkipDiscover,
		MaxMessageBytes:    s.MaxMessageBytes,
	}
}
