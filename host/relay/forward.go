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
	version := e.r.versionOf(srv, server)
	if version == "" {
		// Its first session decides what has to be translated.
		if err := srv.Await(ctx); err != nil {
			return e.r.unanswered(ctx, c, server, err)
		}
		version = e.r.versionOf(srv, server)
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

// versionOf returns the protocol version of a server's session, or of the last
// one; "" if there has been none.
func (r *Relay) versionOf(srv Server, server string) string {
	if s := srv.Session(); s != nil {
		return s.Info().ProtocolVersion
	}
	info, _ := r.cfg.Catalog.Info(server)
	return info.ProtocolVersion
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
