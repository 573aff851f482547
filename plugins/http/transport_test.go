package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// open returns a connection to a server, closed with the test.
func open(t *testing.T, url string, headers map[string]string) *conn {
	t.Helper()
	c, err := dial(t.Context(), shared.Session{}, config{URL: url, Headers: headers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c.(*conn)
}

// send writes a request or, with id 0, a notification.
func send(t *testing.T, c *conn, id int, method, params string) {
	t.Helper()
	if err := c.Write(t.Context(), message(id, method, params)); err != nil {
		t.Fatalf("Write %s: %v", method, err)
	}
}

func message(id int, method, params string) *jsonrpc.Message {
	m := &jsonrpc.Message{Method: method}
	if id != 0 {
		m.ID = fmt.Append(nil, id)
	}
	if params != "" {
		m.Params = json.RawMessage(params)
	}
	return m
}

// read returns the next message, within half a minute.
func read(t *testing.T, c *conn) shared.Incoming {
	t.Helper()
	in, err := tryRead(t, c)
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	return in
}

func tryRead(t *testing.T, c *conn) (shared.Incoming, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return c.Read(ctx)
}

// end reads up to the session's end.
func end(t *testing.T, c *conn) *shared.EndError {
	t.Helper()
	for {
		_, err := tryRead(t, c)
		if err == nil {
			continue
		}
		end, ok := err.(*shared.EndError)
		if !ok {
			t.Fatalf("Read: %v (%T), want an *EndError", err, err)
		}
		if end.Message == "" {
			t.Error("the end has no message")
		}
		return end
	}
}

// failed reads the failure of a request.
func failed(t *testing.T, c *conn, id int) *shared.WriteError {
	t.Helper()
	in := read(t, c)
	if in.Failure == nil || string(in.ID) != fmt.Sprint(id) {
		t.Fatalf("got %+v, want a failure of request %d", in, id)
	}
	if in.Failure.Message == "" {
		t.Error("the failure has no message")
	}
	return in.Failure
}

func wantFailure(t *testing.T, f *shared.WriteError, reason transportpb.TransportError_Reason, delivered transportpb.TransportError_Delivered) {
	t.Helper()
	if f.Reason != reason || f.Delivered != delivered {
		t.Errorf("failure %v, %v (%s), want %v, %v", f.Reason, f.Delivered, f.Message, reason, delivered)
	}
}

// handshake does what the kit does for versions with sessions.
func handshake(t *testing.T, c *conn) {
	t.Helper()
	send(t, c, 900, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	for {
		in := read(t, c)
		if string(in.ID) == "900" {
			if in.Failure != nil || in.Error != nil {
				t.Fatalf("initialize: %+v", in)
			}
			break
		}
	}
	c.Initialized("2025-11-25")
	send(t, c, 0, "notifications/initialized", "")
}

// scripted is a server with a session whose answers a test decides.
type scripted struct {
	*httptest.Server
	post func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message)
	get  http.HandlerFunc // nil: 405
	idle time.Duration    // after which it closes a connection, in a bubble; 0: never

	mu      sync.Mutex
	seen    []*http.Request
	session string // "" answers every session id with 404
}

const capabilities = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{}}`

func serve(t *testing.T, s *scripted) *scripted {
	t.Helper()
	s.session = "s1"
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.seen = append(s.seen, r.Clone(context.Background()))
	session := s.session
	s.mu.Unlock()
	if id := r.Header.Get("Mcp-Session-Id"); id != "" && id != session {
		http.Error(w, "session not found", http.StatusNotFound)
		return
	}
	switch {
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
		return
	case r.Method == http.MethodGet && s.get != nil:
		s.get(w, r)
		return
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	m, err := jsonrpc.Parse(body)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case m.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", session)
		answer(w, m, `{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"serverInfo":{"name":"s","version":"1"}}`)
	case !m.IsRequest():
		w.WriteHeader(http.StatusAccepted)
	default:
		s.post(w, r, m)
	}
}

// forget makes the server lose its session.
func (s *scripted) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session = ""
}

// requests returns those of a method so far.
func (s *scripted) requests(method string) []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*http.Request
	for _, r := range s.seen {
		if r.Method == method {
			all = append(all, r)
		}
	}
	return all
}

func answer(w http.ResponseWriter, m jsonrpc.Message, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// event writes an event and sends it off.
func event(w http.ResponseWriter, fields ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, strings.Join(fields, "\n")+"\n\n")
	w.(http.Flusher).Flush()
}

func result(m jsonrpc.Message, text string) string {
	return fmt.Sprintf(`data: {"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, text)
}

func TestAnswersAsJSONAndAsStream(t *testing.T) {
	release := make(chan struct{})
	s := serve(t, &scripted{post: func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
		if m.Method == "json" {
			answer(w, m, `{"big":9007199254740993, "a":1,"a":2}`)
			return
		}
		event(w, `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}`)
		<-release
		event(w, `event: message`, result(m, `{}`))
	}})
	c := open(t, s.URL, nil)
	handshake(t, c)

	send(t, c, 1, "json", `{}`)
	if in := read(t, c); string(in.ID) != "1" || string(in.Result) != `{"big":9007199254740993, "a":1,"a":2}` {
		t.Errorf("JSON answer: %+v", in)
	}

	send(t, c, 2, "stream", `{}`)
	if in := read(t, c); in.Method != "notifications/progress" || in.Related != 2 {
		t.Errorf("got %+v, want the progress of request 2 before its answer is there", in)
	}
	close(release)
	if in := read(t, c); string(in.ID) != "2" || string(in.Result) != `{}` {
		t.Errorf("streamed answer: %+v", in)
	}
	for _, r := range s.requests(http.MethodPost)[1:] {
		if r.Header.Get("Mcp-Session-Id") != "s1" || r.Header.Get("Mcp-Protocol-Version") != "2025-11-25" {
			t.Errorf("request after initialize has headers %v", r.Header)
		}
	}
	if r := s.requests(http.MethodPost)[0]; r.Header.Get("Mcp-Session-Id") != "" || r.Header.Get("Mcp-Protocol-Version") != "" {
		t.Errorf("initialize has headers %v", r.Header)
	}
}

func TestCloseDeletesTheSession(t *testing.T) {
	s := serve(t, &scripted{})
	c := open(t, s.URL, nil)
	handshake(t, c)
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := s.requests(http.MethodDelete); len(d) != 1 || d[0].Header.Get("Mcp-Session-Id") != "s1" {
		t.Errorf("DELETE requests: %v", d)
	}
	if err := c.Write(t.Context(), message(1, "ping", "")); err == nil {
		t.Error("Write after Close succeeds")
	}
	if _, err := tryRead(t, c); err == nil {
		t.Error("Read after Close succeeds")
	}
}

// TestWriteDoesNotWait holds that a cancellation is not queued behind the call
// that it cancels, and that a withdrawn request is not answered.
func TestWriteDoesNotWait(t *testing.T) {
	arrived, left := make(chan struct{}), make(chan struct{})
	s := serve(t, &scripted{post: func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
		close(arrived)
		<-r.Context().Done()
		close(left)
	}})
	c := open(t, s.URL, nil)
	handshake(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	if err := c.Write(ctx, message(1, "slow", "")); err != nil {
		t.Fatal(err)
	}
	<-arrived
	send(t, c, 0, "notifications/cancelled", `{"requestId":1}`)
	cancel()
	<-left
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if in, err := c.Read(ctx); err == nil {
		t.Errorf("a withdrawn request gives %+v", in)
	}
}

func sdkServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	type in struct {
		Text string `json:"text"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "echo"}, func(ctx context.Context, r *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
		if token := r.Params.GetProgressToken(); token != nil {
			_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1})
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: a.Text}}}, nil, nil
	})
	return server
}

// TestSDKServer speaks with the MCP SDK's own server, with sessions.
func TestSDKServer(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		t.Run(fmt.Sprintf("json=%t", asJSON), func(t *testing.T) {
			server := sdkServer()
			handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
				&mcp.StreamableHTTPOptions{JSONResponse: asJSON, EventStore: mcp.NewMemoryEventStore(nil)})
			web := httptest.NewServer(handler)
			t.Cleanup(web.Close)
			c := open(t, web.URL, nil)
			handshake(t, c)

			const calls = 50
			for i := 1; i <= calls; i++ {
				send(t, c, i, "tools/call", fmt.Sprintf(`{"name":"echo","arguments":{"text":"t%d"},"_meta":{"progressToken":%d}}`, i, i))
			}
			answers, progress := map[string]bool{}, 0
			for len(answers) < calls {
				in := read(t, c)
				if in.Method == "notifications/progress" {
					if !asJSON && in.Related == 0 {
						t.Errorf("progress without its request: %+v", in)
					}
					progress++
					continue
				}
				if !in.IsResponse() {
					continue
				}
				if !strings.Contains(string(in.Result), fmt.Sprintf(`"t%s"`, in.ID)) {
					t.Errorf("answer %s: %s %v %v", in.ID, in.Result, in.Error, in.Failure)
				}
				answers[string(in.ID)] = true
			}
			if !asJSON && progress != calls {
				t.Errorf("%d progress notifications, want %d", progress, calls)
			}

			// What the server says on its own comes on its own stream.
			mcp.AddTool(server, &mcp.Tool{Name: "another"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				return nil, nil, nil
			})
			for {
				if in := read(t, c); in.Method == "notifications/tools/list_changed" {
					break
				}
			}
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
			for range server.Sessions() {
				t.Error("the server still has a session")
			}
		})
	}
}

// TestSDKServerStateless speaks protocol 2026-07-28.
func TestSDKServerStateless(t *testing.T) {
	server := sdkServer()
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(web.Close)
	c := open(t, web.URL, nil)
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	send(t, c, 1, "server/discover", `{`+meta+`}`)
	if in := read(t, c); in.Error != nil || !strings.Contains(string(in.Result), "2026-07-28") {
		t.Fatalf("server/discover: %+v %v", in, in.Failure)
	}
	c.Initialized("2026-07-28")
	send(t, c, 2, "tools/call", `{"name":"echo","arguments":{"text":"hi"},`+meta+`}`)
	if in := read(t, c); !strings.Contains(string(in.Result), `"hi"`) {
		t.Errorf("tools/call: %s %v %v", in.Result, in.Error, in.Failure)
	}
	// An unknown method comes with status 404, which is an answer here.
	send(t, c, 3, "no/such", `{`+meta+`}`)
	if in := read(t, c); in.Error == nil || in.Error.Code != jsonrpc.CodeMethodNotFound {
		t.Errorf("unknown method: %+v %v", in, in.Failure)
	}
}

func TestRoutingHeaders(t *testing.T) {
	headers := make(chan http.Header, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header
		body, _ := io.ReadAll(r.Body)
		m, _ := jsonrpc.Parse(body)
		answer(w, m, `{}`)
	}))
	t.Cleanup(web.Close)
	c := open(t, web.URL, map[string]string{"authorization": "Bearer abc", "X-Team": "blue"})
	c.Initialized("2026-07-28")
	for _, test := range []struct{ method, params, name string }{
		{"tools/call", `{"name":"read_file"}`, "read_file"},
		{"tools/call", `{"name":"größe"}`, "=?base64?Z3LDtsOfZQ==?="},
		{"prompts/get", `{"name":" padded"}`, "=?base64?IHBhZGRlZA==?="},
		{"resources/read", `{"uri":"file:///a b"}`, "file:///a b"},
		{"tools/list", `{}`, ""},
	} {
		ctx := shared.WithHeaders(t.Context(), map[string]string{"Mcp-Param-Region": "eu"})
		if err := c.Write(ctx, message(1, test.method, test.params)); err != nil {
			t.Fatal(err)
		}
		h := <-headers
		read(t, c)
		for name, want := range map[string]string{
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": test.method, "Mcp-Name": test.name,
			"Mcp-Param-Region": "eu", "Authorization": "Bearer abc", "X-Team": "blue",
			"Mcp-Session-Id": "", "Accept": "application/json, text/event-stream",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", test.method, name, got, want)
			}
		}
	}
}

// TestConnectionsAreReused: the kit ends a call's context when it has the
// answer; the connection lives on, whether the answer was JSON or a stream.
func TestConnectionsAreReused(t *testing.T) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream=%t", stream), func(t *testing.T) {
			s := &scripted{post: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
				if !stream {
					answer(w, m, `{}`)
					return
				}
				event(w, result(m, `{}`))
				time.Sleep(20 * time.Millisecond) // the stream ends a little later
			}}
			bubble(t, s, func(t *testing.T, c *conn, p *pipes) {
				handshake(t, c)
				time.Sleep(time.Second)
				before := p.dials.Load()
				for i := 1; i <= 20; i++ {
					ctx, cancel := context.WithCancel(t.Context())
					if err := c.Write(ctx, message(i, "tools/call", `{}`)); err != nil {
						t.Fatal(err)
					}
					if in := read(t, c); in.Result == nil {
						t.Fatalf("%+v", in)
					}
					cancel()
					time.Sleep(time.Second)
				}
				if n := p.dials.Load() - before; n != 0 {
					t.Errorf("%d connections were made", n)
				}
			})
		})
	}
}
