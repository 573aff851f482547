package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is an endpoint whose tools are what the tests need. It records who
// joined and what it heard.
type fake struct {
	mu      sync.Mutex
	joined  map[relay.Client]bool
	heard   []string
	entered chan string   // told of each call that waits
	ended   chan error    // told of the cause when a waiting call's context ends
	release chan struct{} // lets waiting calls answer
	schema  json.RawMessage
}

func newFake() *fake {
	return &fake{joined: make(map[relay.Client]bool), entered: make(chan string, 100), ended: make(chan error, 100), release: make(chan struct{})}
}

func (f *fake) Describe() relay.Description {
	return relay.Description{
		ServerInfo:   json.RawMessage(`{"name":"fake","version":"1"}`),
		Capabilities: json.RawMessage(`{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true,"listChanged":true},"logging":{}}`),
		Instructions: "be kind",
	}
}

func (f *fake) Join(c relay.Client) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.joined[c] = true
}

func (f *fake) Leave(c relay.Client) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.joined, c)
}

func (f *fake) clients() []relay.Client {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []relay.Client
	for c := range f.joined {
		all = append(all, c)
	}
	return all
}

func (f *fake) Notification(_ context.Context, _ relay.Client, method string, _ json.RawMessage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard = append(f.heard, method)
}

func (f *fake) InputSchema(string) json.RawMessage { return f.schema }

func textResult(text string) session.Reply {
	return session.Reply{Result: json.RawMessage(`{"content":[{"type":"text","text":` + string(rawjson.Quote(text)) + `}]}`)}
}

func (f *fake) Handle(ctx context.Context, c relay.Call) session.Reply {
	switch c.Method {
	case "tools/list":
		return session.Reply{Result: json.RawMessage(`{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`)}
	case "resources/subscribe":
		if rawjson.Text(c.Params, "uri") == "bad://" {
			return session.Reply{Error: jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "no such resource")}
		}
		return session.Reply{Result: emptyResult}
	case "logging/setLevel":
		return session.Reply{Result: emptyResult}
	case "tools/call":
	default:
		return session.Reply{Error: jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "method not found: %s", c.Method)}
	}
	switch name := rawjson.Text(c.Params, "name"); name {
	case "echo":
		return session.Reply{Result: json.RawMessage(`{"content":[],"structuredContent":` + string(orEmpty(rawjson.Get(c.Params, "arguments"))) + `}`)}
	case "big":
		return textResult(strings.Repeat("x", 1<<20))
	case "meta":
		return session.Reply{Result: json.RawMessage(`{"content":[],"_meta":{"a":1}}`)}
	case "input":
		return session.Reply{Result: json.RawMessage(`{"resultType":"input_required","inputRequests":{}}`)}
	case "progress":
		for _, n := range []string{"1", "2", "3"} {
			c.Stream.Notify("notifications/progress", json.RawMessage(`{"progressToken":"t","progress":`+n+`}`))
		}
		return textResult("done")
	case "log":
		c.Stream.Notify("notifications/message", json.RawMessage(`{"level":"info","data":"hello"}`))
		return textResult("logged")
	case "ask":
		r, err := c.Stream.Request(ctx, "elicitation/create", json.RawMessage(`{"message":"who?","requestedSchema":{"type":"object","properties":{}}}`))
		switch {
		case err != nil:
			return textResult("error: " + err.Error())
		case r.Error != nil:
			return textResult("refused: " + r.Error.Message)
		}
		return textResult(rawjson.Text(r.Result, "action"))
	case "wait", "progress-wait":
		if name == "progress-wait" {
			c.Stream.Notify("notifications/progress", json.RawMessage(`{"progressToken":"t","progress":1}`))
		}
		f.entered <- name
		select {
		case <-ctx.Done():
			f.ended <- context.Cause(ctx)
			return session.Reply{}
		case <-f.release:
			return textResult("released")
		}
	case "headers":
		return textResult(c.Headers["Mcp-Param-Where"])
	case "panic":
		panic("scripted")
	default:
		return session.Reply{Error: jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "unknown tool")}
	}
}

// front is a gateway on a real HTTP server with one fake endpoint, known as ""
// and "one".
type front struct {
	*fake
	t   *testing.T
	g   *Gateway
	url string
}

func newFront(t *testing.T, change func(*Config)) *front {
	t.Helper()
	f := &front{fake: newFake(), t: t}
	cfg := Config{Endpoints: func(name string) (relay.Endpoint, bool) { return f.fake, name == "" || name == "one" }}
	if change != nil {
		change(&cfg)
	}
	f.g = New(cfg)
	srv := httptest.NewUnstartedServer(f.g)
	srv.Config = f.g.Server()
	srv.Start()
	f.url = srv.URL + "/mcp"
	t.Cleanup(func() {
		if err := f.g.Shutdown(t.Context()); err != nil && t.Context().Err() == nil {
			t.Errorf("shutdown: %v", err)
		}
		srv.Close()
		http.DefaultClient.CloseIdleConnections()
		if n := len(f.clients()); n != 0 {
			t.Errorf("%d clients never left", n)
		}
	})
	return f
}

// answered is a response, read whole.
type answered struct {
	status int
	header http.Header
	body   string
}

// message returns the single JSON-RPC message of a response.
func (a answered) message(t *testing.T) jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Parse([]byte(a.body))
	if err != nil {
		t.Fatalf("body %q: %v", a.body, err)
	}
	return m
}

func (f *front) request(ctx context.Context, method, body string, headers ...string) *http.Request {
	f.t.Helper()
	url := f.url
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		switch headers[i] {
		case "Host":
			r.Host = headers[i+1]
		case "path":
			r.URL.Path = headers[i+1]
		default:
			r.Header.Del(headers[i])
			if headers[i+1] != "" {
				r.Header.Set(headers[i], headers[i+1])
			}
		}
	}
	return r
}

func (f *front) do(method, body string, headers ...string) answered {
	f.t.Helper()
	res, err := http.DefaultClient.Do(f.request(f.t.Context(), method, body, headers...))
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return answered{res.StatusCode, res.Header, string(all)}
}

func (f *front) post(body string, headers ...string) answered {
	f.t.Helper()
	return f.do(http.MethodPost, body, headers...)
}

// initialize opens a session and returns the headers of its requests.
func (f *front) initialize(version string) []string {
	f.t.Helper()
	res := f.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}`)
	id := res.header.Get(headerSession)
	if res.status != 200 || id == "" {
		f.t.Fatalf("initialize: %+v", res)
	}
	headers := []string{headerSession, id, headerVersion, version}
	if got := f.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers...); got.status != 202 || got.body != "" {
		f.t.Fatalf("initialized: %+v", got)
	}
	return headers
}

func toolCall(id, tool string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":{}}}`
}

// sse reads an event stream.
type sse struct {
	t    *testing.T
	res  *http.Response
	scan *bufio.Reader
}

type sseEvent struct{ name, id, retry, data, comment string }

func (f *front) open(ctx context.Context, method, body string, headers ...string) *sse {
	f.t.Helper()
	res, err := http.DefaultClient.Do(f.request(ctx, method, body, headers...))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		all, _ := io.ReadAll(res.Body)
		f.t.Fatalf("no event stream: %d %s", res.StatusCode, all)
	}
	return &sse{f.t, res, bufio.NewReader(res.Body)}
}

// next returns the next event or comment, false at the end.
func (s *sse) next() (sseEvent, bool) {
	s.t.Helper()
	var e sseEvent
	for {
		line, err := s.scan.ReadString('\n')
		if err != nil {
			return e, false
		}
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			return e, true
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "retry":
			e.retry = value
		case "data":
			e.data = value
		case "":
			e.comment = value
		}
	}
}

// message returns the next event that carries a message.
func (s *sse) message() (jsonrpc.Message, sseEvent) {
	s.t.Helper()
	for {
		e, ok := s.next()
		if !ok {
			s.t.Fatal("the stream ended before a message came")
		}
		if e.data == "" {
			continue
		}
		m, err := jsonrpc.Parse([]byte(e.data))
		if err != nil {
			s.t.Fatalf("event %q: %v", e.data, err)
		}
		return m, e
	}
}

func equalJSON(t *testing.T, got, want string) {
	t.Helper()
	var a, b bytes.Buffer
	if json.Compact(&a, []byte(got)) != nil || json.Compact(&b, []byte(want)) != nil || a.String() != b.String() {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}
