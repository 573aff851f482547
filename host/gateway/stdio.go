package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hermes-host/hermes-host/host/relay"
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
		err := c.out.pump(context.WithoutCancel(ctx), lineWriter{out}, nil, -1, 0)
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
	all, err := rawjson.Elements(jsonrpc.TrimMark(text))
	if err != nil {
		c.out.add(&jsonrpc.Message{Error: parseError(err)})
		return
	}
	version := ""
	c.mu.Lock()
	if c.session != nil {
		version = c.session.version
	}
	c.mu.Unlock()
	if e := checkBatch(version, len(all)); e != nil {
		c.out.add(&jsonrpc.Message{Error: e})
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
