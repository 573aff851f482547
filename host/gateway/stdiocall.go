package gateway

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// A stdioCall is one request over stdio. It is the [relay.Stream] of that
// request.
type stdioCall struct {
	c       *stdioConn
	id      json.RawMessage
	ctx     context.Context
	cancel  context.CancelCauseFunc
	asked   *questions // nil for a stateless request
	level   string
	modern  bool
	listens bool
	over    atomic.Bool
}

var _ relay.Stream = (*stdioCall)(nil)

// Notify says something before the answer.
func (c *stdioCall) Notify(method string, params json.RawMessage) {
	if c.over.Load() || c.modern && method == "notifications/message" && !wantsLog(c.level, params) {
		return
	}
	c.c.out.add(&jsonrpc.Message{Method: method, Params: params})
}

// Request asks the client something while it waits for the answer.
func (c *stdioCall) Request(ctx context.Context, method string, params json.RawMessage) (session.Reply, error) {
	if c.asked == nil {
		return session.Reply{}, relay.ErrNoRequests
	}
	if c.over.Load() {
		return session.Reply{}, errNoWay
	}
	return c.asked.ask(ctx, method, params, c.c.out.add)
}

func (c *stdioCall) end() { c.over.Store(true) }

// answer writes the answer, unless the client has cancelled the request and
// expects none (MCP 2025-11-25, cancellation). It keeps the call's place among
// those in flight until the client has taken it.
func (c *stdioCall) answer(a answer) {
	if context.Cause(c.ctx) == errCancelledCall {
		return
	}
	m := a.message()
	c.c.out.addWait(c.c.ctx, &m)
}

func (c *stdioConn) legacy(m *jsonrpc.Message) {
	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	if m.Method == "initialize" && s == nil {
		result, version, e := initializeResult(c.endpoint, m.Params)
		if e == nil {
			s = c.g.newSession("", c.endpoint, version, m.Params)
			s.own = &c.out
			c.endpoint.Join(s)
			c.mu.Lock()
			c.session = s
			c.mu.Unlock()
		}
		c.out.add(&jsonrpc.Message{ID: m.ID, Result: result, Error: e})
		return
	}
	if reply, ok := own(m.Method); ok {
		c.out.add(&jsonrpc.Message{ID: m.ID, Result: reply.Result, Error: reply.Error})
		return
	}
	if s == nil {
		c.out.add(&jsonrpc.Message{ID: m.ID, Error: jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "%s came before initialize", m.Method)})
		return
	}
	c.run(m, "", func(call *stdioCall) {
		call.asked = s.asked
		reply, _ := c.g.handle(call.ctx, c.endpoint, call, relay.Call{Client: s, Stream: call, Method: m.Method, Params: m.Params})
		call.answer(answer{id: m.ID, reply: reply})
	})
}

func (c *stdioConn) modern(m *jsonrpc.Message) {
	client, e := readMeta(m.Params)
	if e == nil && removed(m.Method) {
		e = methodNotFound(m.Method)
	}
	if e != nil {
		c.out.add(&jsonrpc.Message{ID: m.ID, Error: e})
		return
	}
	c.run(m, client.level, func(call *stdioCall) {
		switch m.Method {
		case "server/discover":
			call.answer(c.g.modernAnswer(c.endpoint, m, session.Reply{Result: discoverResult(c.endpoint)}))
		case "subscriptions/listen":
			c.listen(call, client, m)
		default:
			reply, _ := c.g.handle(call.ctx, c.endpoint, call, relay.Call{Client: client, Stream: call, Method: m.Method, Params: m.Params})
			call.answer(c.g.modernAnswer(c.endpoint, m, reply))
		}
	})
}

// listen serves subscriptions/listen until it is cancelled or the client goes;
// if the host goes first, the client gets a result.
func (c *stdioConn) listen(call *stdioCall, client *statelessClient, m *jsonrpc.Message) {
	wants, e := readInterests(m.Params, c.endpoint.Describe().Capabilities)
	if e != nil {
		call.answer(answer{id: m.ID, reply: session.Reply{Error: e}})
		return
	}
	held := &holdBack{to: &c.out}
	l := &listener{statelessClient: client, id: m.ID, wants: wants, stream: held}
	c.endpoint.Join(l)
	defer c.endpoint.Leave(l)
	l.subscribe(call.ctx, c.g, c.endpoint)
	c.out.add(l.acknowledged())
	held.release()
	if !l.idle() {
		<-call.ctx.Done()
	}
	if cause := context.Cause(call.ctx); cause == nil || cause == errShutdown {
		c.out.add(l.ended(c.endpoint))
	}
}

// run starts a call in a goroutine of its own.
func (c *stdioConn) run(m *jsonrpc.Message, level string, serve func(*stdioCall)) {
	call := &stdioCall{c: c, id: m.ID, level: level, modern: level != "" || versionInMeta(m.Params) != "", listens: m.Method == "subscriptions/listen"}
	key := idKey(m.ID)
	select {
	case c.slots <- struct{}{}:
	case <-c.ctx.Done():
		return
	}
	call.ctx, call.cancel = context.WithCancelCause(c.ctx)
	c.mu.Lock()
	_, dup := c.calls[key]
	ended := c.ended
	if !dup && !ended {
		c.calls[key] = call
		c.running.Add(1)
	}
	c.mu.Unlock()
	if dup || ended {
		<-c.slots
		call.cancel(nil)
		if dup {
			c.out.add(&jsonrpc.Message{ID: m.ID, Error: jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "a request with the id %s is already in flight", key)})
		}
		return
	}
	go func() {
		defer c.running.Done()
		defer func() { <-c.slots }()
		defer call.cancel(nil)
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.calls, key)
		}()
		serve(call)
	}()
}
