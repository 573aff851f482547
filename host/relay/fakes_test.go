package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// upserver is an MCP server with its session and its supervisor in one.
type upserver struct {
	name  string
	info  session.Info
	lists map[string]string // results by method
	// serve answers what is no list; nil: an empty result.
	serve func(ctx context.Context, req session.Request) (session.Reply, error)

	next   atomic.Uint64
	down   atomic.Bool
	coming func() // brings a server up that was down from the start
	done   chan struct{}

	mu      sync.Mutex
	got     []session.Request
	opts    []supervisor.CallOptions
	noted   []string
	answers map[string]session.Reply
	answer  chan struct{} // one token per answer
}

func newServer(name string, tools ...string) *upserver {
	var all []string
	for _, t := range tools {
		hints := ""
		if strings.HasPrefix(t, "get") {
			hints = `,"annotations":{"readOnlyHint":true}`
		}
		all = append(all, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}%s}`, t, hints))
	}
	return &upserver{
		name: name, done: make(chan struct{}), answers: map[string]session.Reply{}, answer: make(chan struct{}, 1000),
		info: session.Info{
			ProtocolVersion: "2025-11-25",
			ServerInfo:      json.RawMessage(`{"name":"` + name + `","version":"1"}`),
			Capabilities:    json.RawMessage(`{"tools":{},"resources":{"subscribe":true},"prompts":{},"logging":{},"completions":{}}`),
			Instructions:    "Use " + name + ".",
		},
		lists: map[string]string{"tools/list": `{"tools":[` + strings.Join(all, ",") + `]}`},
	}
}

func (s *upserver) Info() session.Info { return s.info }

func (s *upserver) Session() session.Session {
	if s.down.Load() {
		return nil
	}
	return asSession{s}
}

// Await is the supervisor's.
func (s *upserver) Await(context.Context) error {
	if s.coming != nil {
		s.coming()
	}
	return nil
}

// Call is the supervisor's.
func (s *upserver) Call(ctx context.Context, req session.Request, opt supervisor.CallOptions) (session.Reply, error) {
	if s.down.Load() {
		return session.Reply{}, &supervisor.ReconnectingError{Server: s.name, State: supervisor.Reconnecting, RetryIn: 3 * time.Second}
	}
	s.mu.Lock()
	s.opts = append(s.opts, opt)
	s.mu.Unlock()
	return s.call(ctx, req)
}

func (s *upserver) call(ctx context.Context, req session.Request) (session.Reply, error) {
	s.mu.Lock()
	s.got = append(s.got, req)
	s.mu.Unlock()
	if req.Started != nil {
		req.Started(s.next.Add(1))
	}
	if l, ok := s.lists[req.Method]; ok {
		return session.Reply{Result: json.RawMessage(l)}, nil
	}
	if strings.HasSuffix(req.Method, "/list") {
		return session.Reply{Error: jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "Method not found")}, nil
	}
	if s.serve != nil {
		return s.serve(ctx, req)
	}
	return session.Reply{Result: json.RawMessage(`{}`)}, nil
}

// requests returns what came, without lists, as "method params".
func (s *upserver) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, r := range s.got {
		if !strings.HasSuffix(r.Method, "/list") {
			all = append(all, r.Method+" "+string(r.Params))
		}
	}
	return all
}

func (s *upserver) answered(id string) session.Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers[id]
}

// asSession is the server as its session.
type asSession struct{ *upserver }

func (s asSession) Call(ctx context.Context, req session.Request) (session.Reply, error) {
	return s.call(ctx, req)
}
func (s asSession) Notify(method string, params json.RawMessage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noted = append(s.noted, method+" "+string(params))
	return nil
}
func (s asSession) Answer(id json.RawMessage, r session.Reply) error {
	s.mu.Lock()
	s.answers[string(id)] = r
	s.mu.Unlock()
	s.answer <- struct{}{}
	return nil
}
func (s asSession) Healthy(context.Context) error { return nil }
func (s asSession) Done() <-chan struct{}         { return s.done }
func (s asSession) End() *session.End             { return nil }
func (s asSession) Close(context.Context)         {}

// client records what it is told. It is its own stream.
type client struct {
	id, version string
	caps        string
	info        json.RawMessage
	told        func() // called at each notification
	ask         func(ctx context.Context, method string, params json.RawMessage) (session.Reply, error)

	mu    sync.Mutex
	heard []string // what came for no request
	on    []string // what came on the stream of a request
}

func (c *client) ID() string { return c.id }
func (c *client) ProtocolVersion() string {
	if c.version == "" {
		return "2025-11-25"
	}
	return c.version
}
func (c *client) Info() json.RawMessage         { return c.info }
func (c *client) Capabilities() json.RawMessage { return json.RawMessage(c.caps) }
func (c *client) Notify(method string, params json.RawMessage) {
	if c.told != nil {
		c.told()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = append(c.heard, strings.TrimSpace(method+" "+string(params)))
}

func (c *client) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.heard
	c.heard = nil
	return all
}

func (c *client) streamed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.on
	c.on = nil
	return all
}

type stream struct{ *client }

func (s stream) Notify(method string, params json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = append(s.on, method+" "+string(params))
}

func (s stream) Request(ctx context.Context, method string, params json.RawMessage) (session.Reply, error) {
	if s.ask == nil {
		return session.Reply{}, ErrNoRequests
	}
	return s.ask(ctx, method, params)
}

func (c *client) call(method, params string) Call {
	var p json.RawMessage
	if params != "" {
		p = json.RawMessage(params)
	}
	return Call{Client: c, Stream: stream{c}, Method: method, Params: p}
}

// world is a relay with servers, all listed.
type world struct {
	t   testing.TB
	r   *Relay
	cat *catalog.Catalog
	ups map[string]*upserver
}

func newWorld(t testing.TB, servers ...*upserver) *world {
	w := &world{t: t, cat: catalog.New(), ups: map[string]*upserver{}}
	var cfg []catalog.Server
	for _, s := range servers {
		w.ups[s.name] = s
		cfg = append(cfg, catalog.Server{Name: s.name})
	}
	if err := w.cat.SetServers(cfg); err != nil {
		t.Fatal(err)
	}
	w.r = New(Config{Catalog: w.cat, Lookup: func(name string, _ Client) (Server, bool) {
		s, ok := w.ups[name]
		return s, ok
	}})
	for _, s := range servers {
		if !s.down.Load() {
			w.list(s)
		}
	}
	t.Cleanup(w.r.Close)
	return w
}

// list does what a supervisor does with a new session, or after list_changed.
func (w *world) list(s *upserver) {
	h, _ := w.cat.Handle(s.name)
	w.r.Introduce(s.name, asSession{s})
	if err := h.List(context.Background(), asSession{s}, supervisor.AllLists); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) endpoint(name string) Endpoint {
	e, ok := w.r.Endpoint(name)
	if !ok {
		w.t.Fatalf("no endpoint %q", name)
	}
	return e
}

func text(r session.Reply) string {
	if r.Error != nil {
		return fmt.Sprintf("%d %s %s", r.Error.Code, r.Error.Message, r.Error.Data)
	}
	return string(r.Result)
}
