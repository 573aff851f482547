package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/hermes-host/hermes-host/internal/httpconn"
	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// maxRefusal bounds the body of an answer with an error status.
const maxRefusal = 1 << 20

// codeServerError is JSON-RPC's first code for errors of the implementation's
// own.
const codeServerError = -32000

// post is one message on its way and what comes back. A single goroutine owns
// it.
//
// A request (id is set) settles exactly once: with the server's answer or with
// a failure. Other messages have no outcome that anybody waits for.
type post struct {
	conn    *conn
	id      json.RawMessage // of a request, else nil
	related uint64          // the host's number of the request
	method  string          // "" for an answer to the server
	header  http.Header
	body    []byte
	push    func(context.Context, shared.Incoming) bool
	probe   bool // it is the transport's own question whether the session lives

	status  int    // of the HTTP answer
	session string // the session id in it
	settled bool

	// keep makes the end of the caller's context mean nothing any more. The
	// kit ends it when it has the answer, and that must not break the
	// connection under a stream that is about to end by itself.
	keep func() bool
}

// run sends the message and handles the answer.
func (p *post) run(wanted context.Context) {
	ctx, cancel := context.WithCancel(p.conn.ctx)
	defer cancel()
	p.keep = context.AfterFunc(wanted, cancel)
	defer p.keep()
	resp, err := p.conn.client.Do(ctx, http.MethodPost, nil, p.header, p.body)
	if err != nil {
		p.unanswered(ctx, err)
		return
	}
	defer resp.Body.Close()
	p.conn.inbox.Reached()
	p.receive(ctx, resp)
}

// announce sends notifications/initialized. It returns what keeps the session
// from beginning.
func (p *post) announce(ctx context.Context) error {
	c := p.conn
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	resp, err := c.client.Do(ctx, http.MethodPost, nil, p.header, p.body)
	if err != nil {
		if fault, ok := errors.AsType[*httpconn.Fault](err); ok {
			return fault.EndError()
		}
		return err
	}
	defer resp.Body.Close()
	switch {
	case p.unknownSession(resp):
		return c.lostEnd()
	case unauthorized(resp):
		return authEnd(c.client.AuthMessage(resp))
	case resp.StatusCode >= 300:
		body, _ := httpconn.ReadBody(resp, maxRefusal)
		return transportEnd(c.client.StatusMessage(resp, body))
	}
	c.drain(resp)
	c.startListening()
	return nil
}

// receive handles an HTTP answer by its status.
func (p *post) receive(ctx context.Context, resp *http.Response) {
	c := p.conn
	p.status = resp.StatusCode
	p.session = resp.Header.Get(headerSession)
	switch {
	case p.unknownSession(resp):
		c.drain(resp)
		p.sessionLost(ctx, deliveredNo)
	case unauthorized(resp):
		c.drain(resp)
		message := c.client.AuthMessage(resp)
		p.fail(ctx, failure{
			reason: transportpb.TransportError_REASON_AUTHORIZATION, delivered: deliveredNo,
			message: message, end: authEnd(message), certain: true,
		})
	case resp.StatusCode < 300:
		p.accepted(ctx, resp)
	case resp.StatusCode < 400:
		message := c.client.Place() + " " + httpconn.RedirectMessage(resp)
		p.fail(ctx, failure{
			reason: transportpb.TransportError_REASON_HTTP_STATUS, delivered: deliveredNo,
			message: message, end: shared.ConfigError(message, shared.Attr("url")),
		})
	default:
		p.rejected(ctx, resp)
	}
}

// accepted handles an answer with a status of success.
func (p *post) accepted(ctx context.Context, resp *http.Response) {
	c := p.conn
	if p.id == nil {
		c.drain(resp)
		return
	}
	switch httpconn.MediaType(resp) {
	case "text/event-stream":
		p.stream(ctx, resp)
		return
	case "text/html", "application/xhtml+xml":
		message := c.client.Place() + " answered with a web page; is the URL that of an MCP endpoint?"
		p.fail(ctx, failure{
			reason: transportpb.TransportError_REASON_INVALID, message: message,
			end: &shared.EndError{
				Class: transportpb.SessionEnd_CLASS_PROTOCOL, Message: message,
				Path: shared.Path(shared.Attr("url")),
			},
		})
		return
	}
	body, err := httpconn.ReadBody(resp, c.limit)
	switch {
	case errors.Is(err, httpconn.ErrOversize):
		p.oversize(ctx)
	case err != nil:
		p.broken(ctx, "the connection broke in the middle of the answer")
	case len(body) == 0:
		p.broken(ctx, fmt.Sprintf("status %d without an answer", resp.StatusCode))
	default:
		c.client.Done()
		p.take(ctx, body)
		if !p.settled {
			p.invalid(ctx, "no response among the messages of the answer")
		}
	}
}

// rejected handles an answer with an error status. A JSON-RPC error in it is
// the server's answer (MCP 2026-07-28 sends several with 400 and 404).
func (p *post) rejected(ctx context.Context, resp *http.Response) {
	c := p.conn
	body, _ := httpconn.ReadBody(resp, min(c.limit, maxRefusal))
	c.client.Done()
	message := c.client.StatusMessage(resp, body)
	if p.id == nil {
		c.log.Warn("the server refused a message", "method", p.method, "answer", message)
		return
	}
	if p.olderTransport(ctx) {
		p.fail(ctx, failure{reason: transportpb.TransportError_REASON_HTTP_STATUS, message: message, end: shared.ErrRedial})
		return
	}
	if m, err := jsonrpc.Parse(body); err == nil && m.IsResponse() && m.Error != nil {
		p.answer(ctx, m)
		return
	}
	switch {
	case p.suspect(0) && c.gone():
		p.sessionLost(ctx, deliveredNo)
	case resp.StatusCode == http.StatusTooManyRequests && !p.beginning(false):
		// The server is well and has answered; it only has no JSON for it.
		p.settle(ctx, jsonrpc.Message{Error: jsonrpc.Errorf(codeServerError, "%s", message)})
	default:
		p.fail(ctx, failure{
			reason: transportpb.TransportError_REASON_HTTP_STATUS, message: message,
			end: p.statusEnd(message),
		})
	}
}

// take handles a JSON text that came for this message: a JSON-RPC message, or
// several (batches, MCP 2025-03-26).
func (p *post) take(ctx context.Context, text []byte) {
	if !jsonrpc.IsBatch(text) {
		p.takeOne(ctx, text)
		return
	}
	all, err := rawjson.Elements(jsonrpc.TrimMark(text))
	if err != nil {
		p.unreadable(ctx, text, err)
		return
	}
	for _, one := range all {
		p.takeOne(ctx, one)
	}
}

func (p *post) takeOne(ctx context.Context, text []byte) {
	m, err := jsonrpc.Parse(text)
	switch {
	case err != nil:
		p.unreadable(ctx, text, err)
	case m.IsResponse():
		p.answer(ctx, m)
	default:
		p.push(ctx, shared.Incoming{Message: m, Related: p.related})
	}
}

// unreadable handles a text that is no message. It stands in the place of the
// answer, whatever id it shows, unless it is something that the server asks or
// tells.
func (p *post) unreadable(ctx context.Context, text []byte, why error) {
	var o jsonrpc.Outline
	if o.Scan(text); o.Asks() && len(o.Answers()) == 0 {
		p.conn.log.Warn("dropped a message of the server that cannot be read", "error", why)
		return
	}
	p.invalid(ctx, why.Error())
}

// answer settles the request with a response. It is the only one that can come
// here, whatever id it bears: servers that could not read the request answer
// with null, or with an id of their own.
func (p *post) answer(ctx context.Context, m jsonrpc.Message) {
	if p.settled || p.id == nil {
		return
	}
	if m.Error != nil && p.suspect(m.Error.Code) && p.conn.gone() {
		delivered := deliveredUnknown
		if p.status >= 400 {
			delivered = deliveredNo
		}
		p.sessionLost(ctx, delivered)
		return
	}
	if p.method == methodInitialize && m.Error == nil {
		p.conn.note(p.session, m.Result)
	}
	p.settle(ctx, m)
}

func (p *post) settle(ctx context.Context, m jsonrpc.Message) {
	p.settled = true
	p.keep()
	m.ID = p.id
	p.push(ctx, shared.Incoming{Message: m})
}

// note keeps what the answer to initialize says about the session.
func (c *conn) note(session string, result json.RawMessage) {
	if session != "" {
		c.session.Store(&session)
	}
	var changes []string
	for _, kind := range []string{"tools", "resources", "prompts"} {
		if string(rawjson.Get(result, "capabilities", kind, "listChanged")) == "true" {
			changes = append(changes, "notifications/"+kind+"/list_changed")
		}
	}
	c.changes.Store(&changes)
}

// drain reads the little that is left of an answer, so that its connection can
// be used again.
func (c *conn) drain(resp *http.Response) {
	if resp.Body != http.NoBody {
		_, _ = io.CopyN(io.Discard, resp.Body, 4096)
	}
	c.client.Done()
}

// afterAnswer is how long a stream may go on after its answer. Servers should
// end it at once; then the connection can be used again.
const afterAnswer = time.Second
