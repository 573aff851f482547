package relay

import (
	"context"

	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// A request is what forward sends to a server.
type request struct {
	Call
	params
	srv        Server
	link       *link
	idempotent bool
	version    string // the server's protocol version, as far as it is known
}

// forward sends a request to a server and returns its answer as it came. Where
// client and server are of different eras, it translates.
func (e *endpoint) forward(ctx context.Context, c Call, p params, server string, idempotent bool) session.Reply {
	srv, l, err := e.find(server, c.Client)
	if err != nil {
		return failed(err)
	}
	version, failure := e.r.versionOf(ctx, srv, l)
	if failure != nil {
		return e.r.unanswered(ctx, c, server, failure)
	}
	if l.owner != nil && version < catalog.Stateless && !inTurn[c.Method] {
		if err := e.r.prepare(ctx, srv, l); err != nil {
			return e.r.unanswered(ctx, c, server, err)
		}
	}
	req := &request{Call: c, params: p, srv: srv, link: l, idempotent: idempotent, version: version}
	in := &call{link: l, ctx: ctx}
	in.use(req)
	modern := c.Client.ProtocolVersion() >= catalog.Stateless
	switch {
	case req.version == "" || modern == (req.version >= catalog.Stateless):
	case !modern:
		e.r.forModern(req, in)
		if resumable(c.Method) {
			return e.r.fulfil(ctx, req, in)
		}
	default:
		if state := req.state(); state != "" {
			return e.resume(ctx, req, state)
		}
		forLegacy(req)
		if resumable(c.Method) && askable(c.Client) {
			return e.suspendable(req, in).wait(ctx, c)
		}
	}
	return e.r.exchange(ctx, req, in)
}

// inTurn are the methods that have the link's turn while they are forwarded.
// They are what a session is told, and need not wait for it.
var inTurn = map[string]bool{"logging/setLevel": true, "resources/subscribe": true, "resources/unsubscribe": true}

// versionOf returns the protocol version of a link's session, or of the last
// one. The first decides what has to be translated, so it is waited for; ""
// says that there has been none. What a server speaks in the shared session says
// nothing about that of a client, which asks for its own version.
func (r *Relay) versionOf(ctx context.Context, srv Server, l *link) (string, error) {
	s := srv.Session()
	if s == nil {
		if last := l.version.Load(); last != nil {
			return *last, nil
		}
		if info, _ := r.cfg.Catalog.Info(l.server); l.owner == nil && info.ProtocolVersion != "" {
			return info.ProtocolVersion, nil
		}
		var err error
		if s, err = meet(ctx, srv); s == nil {
			return "", err
		}
	}
	version := s.Info().ProtocolVersion
	l.version.Store(&version)
	return version, nil
}

// meet returns the session, and waits for one that is being made. Nil says that
// none is.
func meet(ctx context.Context, srv Server) (session.Session, error) {
	if s := srv.Session(); s != nil {
		return s, nil
	}
	if err := srv.Await(ctx); err != nil {
		return nil, err
	}
	return srv.Session(), nil
}

// exchange sends a request once, and returns the answer or why there is none.
func (r *Relay) exchange(ctx context.Context, req *request, in *call) session.Reply {
	reply, err := r.send(ctx, req, in)
	if err != nil {
		return r.unanswered(ctx, req.Call, req.link.server, err)
	}
	return reply
}

func (r *Relay) send(ctx context.Context, req *request, in *call) (session.Reply, error) {
	token := in.enter(&r.tokens, req.token.To > 0)
	defer in.leave()
	headers := req.Headers
	if req.version >= catalog.Stateless {
		headers = paramHeaders(headers, req.schema, req.raw)
	}
	return req.srv.Call(ctx, session.Request{
		Method: req.Method, Params: req.encode(token), Headers: headers, Started: in.started,
	}, supervisor.CallOptions{Idempotent: req.idempotent, Excused: in.waits})
}

// unconfigured says that a server has gone since the client learnt of it.
func unconfigured(server string) *jsonrpc.Error {
	return jsonrpc.Errorf(codeUnavailable, "server %q is no longer configured", server)
}
