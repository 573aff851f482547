package sseconn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/hermes-host/hermes-host/internal/httpconn"
	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

const (
	deliveredNo      = transportpb.TransportError_DELIVERED_NO
	deliveredUnknown = transportpb.TransportError_DELIVERED_UNKNOWN
)

// maxRefusal bounds the body of an answer to a POST.
const maxRefusal = 64 << 10

// post is one message on its way. Its answer comes over the stream; here it is
// learnt only whether the server has taken it.
type post struct {
	conn   *Conn
	id     json.RawMessage // of a request, else nil
	method string          // "" for an answer to the server
	body   []byte
}

// run sends the message if it is still wanted. Once begun it is not broken off:
// the answer may come before the server has said that it takes the message, and
// a request that is cancelled at that moment takes its connection with it, under
// whoever uses it next.
func (p *post) run(wanted context.Context) {
	if wanted.Err() != nil {
		return
	}
	c := p.conn
	ctx := c.ctx
	resp, err := c.client.Do(ctx, http.MethodPost, c.endpoint, c.header(), p.body)
	if err != nil {
		if fault, ok := errors.AsType[*httpconn.Fault](err); ok {
			p.fail(ctx, fault.WriteError())
		}
		return
	}
	defer resp.Body.Close()
	failure := &shared.WriteError{Delivered: deliveredUnknown}
	switch status := resp.StatusCode; {
	case status < 300:
		_, _ = io.CopyN(io.Discard, resp.Body, maxRefusal) // "Accepted"
		c.client.Done()
		return
	case status == http.StatusNotFound || status == http.StatusGone:
		// The endpoint belongs to this session alone.
		end := &shared.EndError{
			Class:     transportpb.SessionEnd_CLASS_SESSION_LOST,
			Message:   fmt.Sprintf("%s answered %d to a message: it no longer knows the session", c.client.Place(), status),
			Retryable: true,
		}
		p.fail(ctx, &shared.WriteError{
			Reason:    transportpb.TransportError_REASON_SESSION_LOST,
			Delivered: deliveredNo,
			Message:   end.Message,
		})
		c.inbox.End(end)
		return
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		failure.Reason, failure.Delivered = transportpb.TransportError_REASON_AUTHORIZATION, deliveredNo
		failure.Message = c.client.AuthMessage(resp)
	case status < 400:
		failure.Reason, failure.Delivered = transportpb.TransportError_REASON_HTTP_STATUS, deliveredNo
		failure.Message = c.client.Place() + " " + httpconn.RedirectMessage(resp)
	default:
		body, _ := httpconn.ReadBody(resp, maxRefusal)
		c.client.Done()
		if m, err := jsonrpc.Parse(body); err == nil && m.IsResponse() && m.Error != nil && p.id != nil {
			m.ID = p.id
			c.inbox.Push(ctx, shared.Incoming{Message: m})
			return
		}
		failure.Reason = transportpb.TransportError_REASON_HTTP_STATUS
		failure.Message = c.client.StatusMessage(resp, body)
	}
	p.fail(ctx, failure)
}

// fail reports that a request gets no answer. The kit ignores it should the
// answer have come over the stream nevertheless.
func (p *post) fail(ctx context.Context, failure *shared.WriteError) {
	if p.id == nil {
		if ctx.Err() == nil {
			p.conn.log.Warn("a message did not reach the server", "method", p.method, "error", failure.Message)
		}
		return
	}
	in := shared.Incoming{Failure: failure}
	in.ID = p.id
	p.conn.inbox.Push(ctx, in)
}
