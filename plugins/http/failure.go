package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/hermes-host/hermes-host/internal/httpconn"
	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

const (
	deliveredNo      = transportpb.TransportError_DELIVERED_NO
	deliveredUnknown = transportpb.TransportError_DELIVERED_UNKNOWN
)

// failure is why a request gets no answer.
type failure struct {
	reason    transportpb.TransportError_Reason
	delivered transportpb.TransportError_Delivered // zero: unknown
	message   string

	// end is what the failure means if the session had yet to begin, an
	// *EndError or ErrRedial; nil: a lost connection.
	end error

	// certain says that no other request would fare better, so that
	// a failed server/discover need not be followed by initialize.
	certain bool
}

// fail settles a request without an answer. Before the handshake is complete
// that is the end of the session, with a better reason than the kit could find.
func (p *post) fail(ctx context.Context, f failure) {
	if p.settled {
		return
	}
	p.settled = true
	if p.id == nil {
		if ctx.Err() == nil {
			p.conn.log.Warn("a message did not reach the server", "method", p.method, "error", f.message)
		}
		return
	}
	if p.beginning(f.certain) {
		end := f.end
		if end == nil {
			end = transportEnd(f.message)
		}
		p.conn.inbox.End(end)
		return
	}
	if f.delivered == transportpb.TransportError_DELIVERED_UNSPECIFIED {
		f.delivered = deliveredUnknown
	}
	p.keep()
	in := shared.Incoming{Failure: &shared.WriteError{Reason: f.reason, Delivered: f.delivered, Message: f.message}}
	in.ID = p.id
	p.push(ctx, in)
}

// beginning reports whether the session stands or falls with this request.
func (p *post) beginning(certain bool) bool {
	return !p.probe && p.conn.version.Load() == nil &&
		(p.method == methodInitialize || p.method == methodDiscover && certain)
}

// unanswered handles an error of the HTTP client. If the message is not wanted
// any more, there is nobody to tell. A server that accepts no connection while
// none is in use is gone, and the session with it: so its end is noticed
// in every version of the protocol, with a stream or without.
func (p *post) unanswered(ctx context.Context, err error) {
	fault, ok := errors.AsType[*httpconn.Fault](err)
	if !ok {
		return
	}
	p.fail(ctx, failure{
		reason: transportpb.TransportError_REASON_CONNECTION, delivered: fault.Delivered,
		message: fault.Message, end: fault.EndError(), certain: fault.NoConn,
	})
	if fault.NoConn && !p.conn.stream.Load() {
		p.conn.inbox.Unreachable(fault.EndError())
	}
}

// broken is the failure of a request whose answer was under way.
func (p *post) broken(ctx context.Context, what string) {
	if ctx.Err() != nil {
		return
	}
	p.fail(ctx, failure{
		reason:  transportpb.TransportError_REASON_CONNECTION,
		message: fmt.Sprintf("no answer from %s: %s", p.conn.client.Place(), what),
	})
}

func (p *post) invalid(ctx context.Context, what string) {
	message := fmt.Sprintf("%s sent what is no answer: %s", p.conn.client.Place(), what)
	p.fail(ctx, failure{
		reason: transportpb.TransportError_REASON_INVALID, message: message,
		end: &shared.EndError{Class: transportpb.SessionEnd_CLASS_PROTOCOL, Message: message, Retryable: true},
	})
}

func (p *post) oversize(ctx context.Context) {
	f := httpconn.Oversize(p.conn.client.Place(), p.conn.limit)
	p.fail(ctx, failure{reason: f.Reason, delivered: f.Delivered, message: f.Message})
}

// sessionLost fails the request and ends the session. A probe leaves the
// verdict to who asked.
func (p *post) sessionLost(ctx context.Context, delivered transportpb.TransportError_Delivered) {
	end := p.conn.lostEnd()
	p.fail(ctx, failure{
		reason: transportpb.TransportError_REASON_SESSION_LOST, delivered: delivered,
		message: end.Message, end: end,
	})
	if !p.probe {
		p.conn.inbox.End(end)
	}
}

// unknownSession reports whether a server has said that it does not know the
// session: it must answer a request that names one with 404, whatever the
// body (MCP 2025-11-25, "Streamable HTTP", Session Management, rule 3).
// Without a session, 404 means other things.
func (p *post) unknownSession(resp *http.Response) bool {
	return resp.StatusCode == http.StatusNotFound && p.header[headerSession] != nil
}

func unauthorized(resp *http.Response) bool {
	return resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden
}

func (c *conn) lostEnd() *shared.EndError {
	return &shared.EndError{
		Class:     transportpb.SessionEnd_CLASS_SESSION_LOST,
		Message:   c.client.Place() + " no longer knows the session",
		Retryable: true,
	}
}

func authEnd(message string) *shared.EndError {
	return &shared.EndError{Class: transportpb.SessionEnd_CLASS_AUTH, Message: message}
}

func transportEnd(message string) *shared.EndError {
	return &shared.EndError{Class: transportpb.SessionEnd_CLASS_TRANSPORT, Message: message, Retryable: true}
}

// statusEnd says what an error status in answer to initialize means.
func (p *post) statusEnd(message string) *shared.EndError {
	end := transportEnd(message)
	if p.status == http.StatusNotFound || p.status == http.StatusMethodNotAllowed {
		end.Message += "; is the URL that of an MCP endpoint?"
	}
	return end
}
