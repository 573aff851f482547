package shared

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeConn is a Conn whose server is a function of the test.
type fakeConn struct {
	// serve is told of each message and may answer through reply. An error is
	// Write's.
	serve func(c *fakeConn, m *jsonrpc.Message) error

	in     chan Incoming
	closed chan struct{}
	close  sync.Once
	fault  chan error // makes Read fail

	mu      sync.Mutex
	written []string // methods and responses
	version string   // what Initialized was told
}

func newFakeConn(serve func(*fakeConn, *jsonrpc.Message) error) *fakeConn {
	return &fakeConn{serve: serve, in: make(chan Incoming, 64), closed: make(chan struct{}), fault: make(chan error, 1)}
}

func (c *fakeConn) Read(context.Context) (Incoming, error) {
	select {
	case in := <-c.in:
		return in, nil
	default:
	}
	select {
	case in := <-c.in:
		return in, nil
	case err := <-c.fault:
		return Incoming{}, err
	case <-c.closed:
		return Incoming{}, errors.New("closed by us")
	}
}

func (c *fakeConn) Write(_ context.Context, m *jsonrpc.Message) error {
	c.mu.Lock()
	c.written = append(c.written, string(m.Append(nil)))
	c.mu.Unlock()
	return c.serve(c, m)
}

func (c *fakeConn) Close(context.Context) error {
	c.close.Do(func() { close(c.closed) })
	return nil
}

func (c *fakeConn) Initialized(version string) { c.version = version }

func (c *fakeConn) sent() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.written...)
}

func (c *fakeConn) reply(text string) {
	m, err := jsonrpc.Parse([]byte(text))
	if err != nil {
		panic(err)
	}
	c.in <- Incoming{Message: m}
}

const initializeAnswer = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s"}}}`

const discoverAnswer = `{"jsonrpc":"2.0","id":"discover","result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}}}}`

// legacy answers initialize, and refuses server/discover.
func legacy(c *fakeConn, m *jsonrpc.Message) error {
	switch m.Method {
	case "initialize":
		c.reply(initializeAnswer)
	case "server/discover":
		c.reply(`{"jsonrpc":"2.0","id":"discover","error":{"code":-32601,"message":"what?"}}`)
	}
	return nil
}

// modern answers server/discover, and refuses initialize.
func modern(c *fakeConn, m *jsonrpc.Message) error {
	switch m.Method {
	case "initialize":
		c.reply(`{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"gone"}}`)
	case "server/discover":
		c.reply(discoverAnswer)
	}
	return nil
}

// fakeStream is the plugin's end of an Open stream.
type fakeStream struct {
	grpc.ServerStream
	ctx    context.Context
	cancel context.CancelFunc
	host   chan *transportpb.HostFrame
	plugin chan *transportpb.PluginFrame
}

func (s *fakeStream) Context() context.Context { return s.ctx }

func (s *fakeStream) Recv() (*transportpb.HostFrame, error) {
	select {
	case f, ok := <-s.host:
		if !ok {
			return nil, io.EOF
		}
		return f, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

func (s *fakeStream) Send(f *transportpb.PluginFrame) error {
	select {
	case s.plugin <- f:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// host is the other end of a fakeStream.
type host struct {
	*fakeStream
	t    *testing.T
	svc  *service
	over chan struct{} // closed when Open has returned
	logs []string
}

// openSession runs a session of a plugin with the given dial function.
func openSession(t *testing.T, d Discover, open *transportpb.OpenSession, dial func() (Conn, error)) *host {
	t.Helper()
	return openSessionAs(t, d, open, func(Session) (Conn, error) { return dial() })
}

func openSessionAs(t *testing.T, d Discover, open *transportpb.OpenSession, dial func(Session) (Conn, error)) *host {
	t.Helper()
	svc, err := newService(Plugin[struct{}]{Kind: "fake", Version: "1", Discover: d,
		Dial: func(_ context.Context, s Session, _ struct{}) (Conn, error) { return dial(s) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &host{t: t, svc: svc, over: make(chan struct{}), fakeStream: &fakeStream{
		ctx: ctx, cancel: cancel,
		host: make(chan *transportpb.HostFrame, 16384), plugin: make(chan *transportpb.PluginFrame, 64),
	}}
	h.host <- &transportpb.HostFrame{Frame: &transportpb.HostFrame_Open{Open: open}}
	go func() {
		defer close(h.over)
		defer cancel() // as gRPC does when a handler returns
		if err := svc.Open(h.fakeStream); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		for {
			select {
			case <-h.plugin:
			case <-h.over:
				svc.force()
				return
			}
		}
	})
	return h
}

// next returns the next frame that is no log line.
func (h *host) next() *transportpb.PluginFrame {
	h.t.Helper()
	for {
		f := h.frame()
		if l := f.GetLog(); l != nil {
			h.logs = append(h.logs, l.Message)
			continue
		}
		return f
	}
}

// frame returns the next frame, also after the session is over.
func (h *host) frame() *transportpb.PluginFrame {
	h.t.Helper()
	select {
	case f := <-h.plugin:
		return f
	case <-h.over:
	}
	select {
	case f := <-h.plugin:
		return f
	default:
		h.t.Fatal("the session is over")
		return nil
	}
}

func (h *host) call(id uint64, method string) {
	h.host <- &transportpb.HostFrame{Frame: &transportpb.HostFrame_Request{Request: &transportpb.Request{Id: id, Method: method}}}
}

func (h *host) cancelCall(id uint64) {
	h.host <- &transportpb.HostFrame{Frame: &transportpb.HostFrame_Cancel{Cancel: &transportpb.Cancel{Id: id, Reason: "enough"}}}
}

func (h *host) close() {
	h.host <- &transportpb.HostFrame{Frame: &transportpb.HostFrame_Close{Close: &transportpb.CloseSession{}}}
}
