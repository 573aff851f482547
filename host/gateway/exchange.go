package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// An exchange is one POST that carries requests, and its response.
//
// The response is undecided until there is something to say. If that is the
// answer, it is application/json, which saves a fifth of the cost of a call.
// If something comes before the answer, or the keep-alive interval passes
// without any, it becomes an event stream with a pump goroutine of its own.
// The handlers' goroutines are never those that write to a slow client.
type exchange struct {
	g      *Gateway
	w      http.ResponseWriter
	conn   context.Context // ends with the client's connection
	accept accept
	s      *legacySession // nil for a stateless request
	prime  bool           // streams begin with a priming event
	batch  bool

	callsMu sync.Mutex
	calls   []*call

	mu      sync.Mutex
	answers []jsonrpc.Message // of a batch, while undecided
	stream  *stream           // nil while undecided
	pumped  chan struct{}     // closed when the exchange's own pump has ended
	over    bool              // the answer is given: nothing more can be said
}

// A call is one request. It is the [relay.Stream] of that request.
type call struct {
	x      *exchange
	id     json.RawMessage
	ctx    context.Context
	cancel context.CancelCauseFunc
	level  string // 2026-07-28: the log level that the request asks for
	over   atomic.Bool
}

var _ relay.Stream = (*call)(nil)

// Notify says something before the answer.
func (c *call) Notify(method string, params json.RawMessage) {
	x := c.x
	if c.over.Load() || x.s == nil && method == "notifications/message" && !wantsLog(c.level, params) {
		return
	}
	if !x.say(&jsonrpc.Message{Method: method, Params: params}) {
		x.g.log.Debug("a notification was dropped: its call's response can't carry it", "method", method)
	}
}

// Request asks the client something while it waits for the answer.
func (c *call) Request(ctx context.Context, method string, params json.RawMessage) (session.Reply, error) {
	x := c.x
	if x.s == nil {
		return session.Reply{}, relay.ErrNoRequests
	}
	if c.over.Load() {
		return session.Reply{}, errNoWay
	}
	send := x.say
	if !x.accept.stream {
		if !x.s.own.hasReader() {
			return session.Reply{}, errNoWay
		}
		send = x.s.own.add
	}
	return x.s.asked.ask(ctx, method, params, send)
}

// newCall makes a call whose context ends with parent.
func (x *exchange) newCall(parent context.Context, id json.RawMessage) *call {
	c := &call{x: x, id: id}
	c.ctx, c.cancel = context.WithCancelCause(parent)
	x.callsMu.Lock()
	defer x.callsMu.Unlock()
	x.calls = append(x.calls, c)
	return c
}

// start watches over the exchange while its calls run. It returns the function
// that ends the watch.
func (x *exchange) start() (stop func()) {
	var gone func() bool
	if x.s != nil { // a stateless call's context is the connection's anyway
		gone = context.AfterFunc(x.conn, x.gone)
	}
	quiet := time.AfterFunc(x.g.cfg.KeepAlive, x.quiet)
	return func() {
		quiet.Stop()
		if gone != nil {
			gone()
		}
	}
}

// quiet turns a response on which nothing has been said for long into a
// stream, so that nobody between here and the client loses patience.
func (x *exchange) quiet() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over && x.stream == nil && x.accept.stream {
		x.upgrade()
		if !x.prime {
			x.stream.comment()
		}
	}
}

// gone gives the calls of an undecided exchange whose connection has broken
// some more time: until 2025-11-25 that is no cancellation (transports), but
// nothing can be resumed here either. For streams, stream.detach does this.
func (x *exchange) gone() {
	time.AfterFunc(x.g.cfg.Grace, func() {
		x.mu.Lock()
		lost := x.stream == nil && !x.over
		x.mu.Unlock()
		if lost {
			x.cancelAll(errClientGone)
		}
	})
}

func (x *exchange) cancelAll(cause error) {
	x.callsMu.Lock()
	defer x.callsMu.Unlock()
	for _, c := range x.calls {
		c.cancel(cause)
	}
}

// say queues a message for the client, ahead of the answer.
func (x *exchange) say(m *jsonrpc.Message) bool {
	x.mu.Lock()
	if x.over {
		x.mu.Unlock()
		return false
	}
	if x.stream == nil {
		if !x.accept.stream {
			x.mu.Unlock()
			return x.s != nil && x.s.own.add(m)
		}
		x.upgrade()
	}
	st := x.stream
	x.mu.Unlock()
	return st.add(m)
}

// upgrade decides for an event stream. The caller holds x.mu.
func (x *exchange) upgrade() {
	if x.s != nil {
		x.stream = x.s.openStream(x.cancelAll)
	} else {
		x.stream = &stream{cancel: x.cancelAll}
	}
	if x.prime {
		x.stream.prime()
	}
	for i := range x.answers {
		x.stream.add(&x.answers[i])
	}
	x.answers = nil
	x.pumped = make(chan struct{})
	go func(st *stream) {
		defer close(x.pumped)
		if err := st.pump(x.conn, newEventWriter(x.w), nil, -1, x.g.cfg.KeepAlive); err != nil {
			x.g.log.Debug("a response stream ended early", "reason", err)
		}
	}(x.stream)
}

// answer gives the answer to the only call and returns when the response is
// written.
func (x *exchange) answer(a answer) {
	x.mu.Lock()
	if x.stream == nil && x.accept.json {
		x.over = true
		x.mu.Unlock()
		a.write(x.w)
		return
	}
	if x.stream == nil {
		x.upgrade()
	}
	x.over = true
	x.mu.Unlock()
	m := a.message()
	x.stream.add(&m)
	x.stream.close()
	<-x.pumped
}

// An ending is told that its call has got its answer.
type ending interface{ end() }

func (c *call) end() { c.over.Store(true) }

// handle calls the endpoint. A panic there is this call's error alone.
func (g *Gateway) handle(ctx context.Context, endpoint relay.Endpoint, c ending, rc relay.Call) (reply session.Reply, status int) {
	defer func() {
		if v := recover(); v != nil {
			g.log.Error("handling a request panicked", "method", rc.Method, "panic", v, "stack", string(debug.Stack()))
			reply, status = session.Reply{Error: errPanic}, http.StatusInternalServerError
		}
		c.end()
	}()
	reply = endpoint.Handle(ctx, rc)
	if reply.Error == nil && reply.Result == nil || context.Cause(ctx) == errCancelledCall {
		switch cause := context.Cause(ctx); cause {
		case nil:
		case errCancelledCall:
			reply = session.Reply{Error: errCancelled}
		default:
			reply = session.Reply{Error: jsonrpc.Errorf(jsonrpc.CodeInternalError, "the request was given up: %v", cause)}
		}
	}
	return reply, http.StatusOK
}
