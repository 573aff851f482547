package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

const (
	// drain is how long calls may go on after the input has ended, so that a
	// script that pipes requests in gets its answers.
	drain = 5 * time.Second
)

var errInputEnded = errors.New("the client has closed its end")

// ServeStdio serves one client over newline-delimited JSON, in both eras.
// While maxInFlight of its requests are in flight no more input is read. It
// returns nil when in has ended and what was asked is answered, and otherwise
// why it could not go on. When ctx ends it closes in, if that is an io.Closer;
// another kind of reader keeps a goroutine until its Read returns.
func (g *Gateway) ServeStdio(ctx context.Context, in io.Reader, out io.Writer, endpoint relay.Endpoint) error {
	if !g.enter() {
		return errShutdown
	}
	defer g.leave()
	c := &stdioConn{g: g, endpoint: endpoint, calls: make(map[string]*stdioCall), slots: make(chan struct{}, maxInFlight)}
	c.out.lines, c.out.lossy = true, true
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	defer c.cancel(nil)
	defer context.AfterFunc(g.serving, func() { c.cancel(errShutdown) })()
	defer context.AfterFunc(c.ctx, func() {
		if closer, ok := in.(io.Closer); ok {
			_ = closer.Close() // only to end the Read
		}
	})()

	written := make(chan error, 1)
	go func() {
		err := c.out.pump(context.WithoutCancel(ctx), lineWriter{out}, -1, 0)
		if err != nil {
			c.cancel(fmt.Errorf("writing to the client: %w", err))
		}
		written <- err
	}()
	read := make(chan error, 1)
	go func() { read <- c.read(in) }()

	var err error
	select {
	case err = <-read:
		c.drain()
	case <-c.ctx.Done():
		err = context.Cause(c.ctx)
	}
	c.cancel(errInputEnded)
	c.running.Wait()
	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	if s != nil {
		s.end(errInputEnded)
	}
	c.out.close()
	select {
	case werr := <-written:
		return errors.Join(err, werr)
	case <-time.After(drain): // the client does not read
		return errors.Join(err, errOverflow)
	}
}

// stdioConn is one client over stdio.
type stdioConn struct {
	g        *Gateway
	endpoint relay.Endpoint
	ctx      context.Context
	cancel   context.CancelCauseFunc
	out      stream
	slots    chan struct{}
	running  sync.WaitGroup

	mu      sync.Mutex
	session *legacySession // nil before initialize
	calls   map[string]*stdioCall
	ended   bool
}

type lineWriter struct{ w io.Writer }

func (l lineWriter) write(b []byte) error {
	_, err := l.w.Write(b)
	return err
}

// read takes lines until the input ends. Too long a line is answered with an
// error; the connection goes on.
func (c *stdioConn) read(in io.Reader) error {
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := readLine(lines, c.g.cfg.MaxRequestBytes)
		switch {
		case errors.Is(err, errTooLong):
			c.out.add(&jsonrpc.Message{Error: tooLarge(c.g.cfg.MaxRequestBytes)})
			continue
		case len(afterSpace(line)) > 0:
			c.line(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading from the client: %w", err)
		}
		if c.ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
	}
}

var errTooLong = errors.New("line too long")

// readLine returns the next line in memory of its own. After errTooLong the
// line is skipped.
func readLine(r *bufio.Reader, limit int64) ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if long = long || int64(len(line)+len(part)) > limit+1; !long {
			line = append(line, part...)
		} else {
			line = nil
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if long && err == nil {
			err = errTooLong
		}
		return line, err
	}
}

// line takes one message or a batch.
func (c *stdioConn) line(text []byte) {
	if !jsonrpc.IsBatch(text) {
		m, err := jsonrpc.Parse(text)
		if err != nil {
			c.out.add(&jsonrpc.Message{ID: m.ID, Error: parseError(err)})
			return
		}
		c.message(&m)
		return
	}
	all, err := rawjson.Elements(text)
	c.mu.Lock()
	known := c.session != nil && c.session.version == version20250326
	c.mu.Unlock()
	if err != nil || !known || len(all) == 0 || len(all) > maxBatch {
		c.out.add(&jsonrpc.Message{Error: jsonrpc.Errorf(jsonrpc.CodeInvalidRequest,
			"batches of 1 to %d messages are part of protocol version %s only", maxBatch, version20250326)})
		return
	}
	// Answers to a batch may come one by one here: nothing else tells apart
	// what was asked together (JSON-RPC 2.0 says SHOULD for the array).
	for _, raw := range all {
		m, err := jsonrpc.Parse(raw)
		if err != nil {
			c.out.add(&jsonrpc.Message{ID: m.ID, Error: parseError(err)})
			continue
		}
		c.message(&m)
	}
}

func (c *stdioConn) message(m *jsonrpc.Message) {
	if !m.IsRequest() {
		c.other(m)
		return
	}
	if v := versionInMeta(m.Params); v >= version20260728 {
		c.modern(m)
		return
	}
	c.legacy(m)
}

// other takes a notification or an answer. What cancels a call does so here
// and now, whatever else goes on.
func (c *stdioConn) other(m *jsonrpc.Message) {
	c.mu.Lock()
	s := c.session
	call := c.calls[idKey(rawjson.Get(m.Params, "requestId"))]
	c.mu.Unlock()
	switch {
	case m.Method == "notifications/cancelled":
		if call != nil {
			call.cancel(errCancelledCall)
		}
	case s != nil:
		c.g.legacyOther(s, m)
	}
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

// drain waits for the calls in flight, for a bounded time. Subscriptions would
// never end by themselves.
func (c *stdioConn) drain() {
	c.mu.Lock()
	c.ended = true
	for _, call := range c.calls {
		if call.listens {
			call.cancel(errInputEnded)
		}
	}
	c.mu.Unlock()
	done := make(chan struct{})
	go func() {
		c.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-c.ctx.Done():
	case <-time.After(drain):
		c.cancel(errInputEnded)
	}
	c.cancel(errInputEnded)
	<-done
}

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
