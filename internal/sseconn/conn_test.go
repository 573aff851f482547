package sseconn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hermes-host/hermes-host/internal/httpconn"
	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// connected returns a connection to a server, closed with the test.
func connected(t *testing.T, url string, headers map[string]string) *Conn {
	t.Helper()
	c, err := dial(context.Background(), url, headers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

func dial(ctx context.Context, url string, headers map[string]string) (*Conn, error) {
	client, err := httpconn.New(httpconn.Settings{URL: url, Headers: headers})
	if err != nil {
		return nil, err
	}
	return Open(ctx, client, Settings{})
}

func send(t *testing.T, c *Conn, id int, method, params string) {
	t.Helper()
	m := &jsonrpc.Message{Method: method, Params: json.RawMessage(params)}
	if id != 0 {
		m.ID = fmt.Append(nil, id)
	}
	if err := c.Write(t.Context(), m); err != nil {
		t.Fatalf("Write %s: %v", method, err)
	}
}

func read(t *testing.T, c *Conn) (shared.Incoming, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return c.Read(ctx)
}

func event(w http.ResponseWriter, name, data string) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, data)
	w.(http.Flusher).Flush()
}

// scripted is a server whose answers to messages a test decides. What is sent
// into events goes over the stream; closing it ends the stream.
type scripted struct {
	*httptest.Server
	post    func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message)
	events  chan string
	headers chan http.Header
}

func serve(t *testing.T, s *scripted) *scripted {
	s.events = make(chan string, 10)
	s.headers = make(chan http.Header, 10)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			event(w, "endpoint", "messages?id=1")
			for {
				select {
				case text, ok := <-s.events:
					if !ok {
						return
					}
					event(w, "message", text)
				case <-r.Context().Done():
					return
				}
			}
		}
		if r.URL.Path != "/deep/messages" || r.URL.RawQuery != "id=1" {
			t.Errorf("POST to %s", r.URL)
		}
		body, _ := io.ReadAll(r.Body)
		m, err := jsonrpc.Parse(body)
		if err != nil {
			t.Error(err)
		}
		s.headers <- r.Header
		s.post(w, r, m)
	}))
	s.Config.ErrorLog = quiet
	t.Cleanup(s.Close)
	return s
}

// TestSDKServer speaks with the MCP SDK's own server.
func TestSDKServer(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	type in struct {
		Text string `json:"text"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: a.Text}}}, nil, nil
	})
	web := httptest.NewServer(mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(web.Close)
	c := connected(t, web.URL, nil)
	send(t, c, 900, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	if in, err := read(t, c); err != nil || string(in.ID) != "900" || in.Result == nil {
		t.Fatalf("initialize: %+v, %v", in, err)
	}
	c.Initialized("2025-11-25")
	send(t, c, 0, "notifications/initialized", `{}`)
	const calls = 50
	for i := 1; i <= calls; i++ {
		send(t, c, i, "tools/call", fmt.Sprintf(`{"name":"echo","arguments":{"text":"t%d"}}`, i))
	}
	got := map[string]bool{}
	for len(got) < calls {
		in, err := read(t, c)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(in.Result), fmt.Sprintf(`"t%s"`, in.ID)) {
			t.Fatalf("answer %s: %s %v %v", in.ID, in.Result, in.Error, in.Failure)
		}
		got[string(in.ID)] = true
	}
}

func TestMessages(t *testing.T) {
	s := serve(t, &scripted{post: func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
		w.WriteHeader(http.StatusAccepted)
	}})
	c := connected(t, s.URL+"/deep/sse", map[string]string{"X-Api-Key": "k"})
	send(t, c, 1, "tools/call", `{}`)
	if h := <-s.headers; h.Get("X-Api-Key") != "k" || h.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", h)
	}
	s.events <- `{"jsonrpc":"2.0","method":"notifications/x","params":{"n":9007199254740993}}`
	s.events <- `nonsense`
	s.events <- `{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}`
	if in, err := read(t, c); err != nil || in.Method != "notifications/x" || string(in.Params) != `{"n":9007199254740993}` {
		t.Errorf("%+v, %v", in, err)
	}
	if in, err := read(t, c); err != nil || string(in.ID) != "1" || string(in.Result) != `{"a":1,"a":2}` {
		t.Errorf("%+v, %v", in, err)
	}
}

// TestFailedCalls: a message that the server refuses fails alone.
func TestFailedCalls(t *testing.T) {
	for name, test := range map[string]struct {
		post      func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message)
		reason    transportpb.TransportError_Reason
		delivered transportpb.TransportError_Delivered
		text      string
	}{
		"502": {
			func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
				http.Error(w, "gone", http.StatusBadGateway)
			},
			transportpb.TransportError_REASON_HTTP_STATUS, deliveredUnknown, "502 Bad Gateway: gone",
		},
		"401": {
			func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
				w.WriteHeader(http.StatusUnauthorized)
			},
			transportpb.TransportError_REASON_AUTHORIZATION, deliveredNo, "401",
		},
		"302": {
			func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) {
				http.Redirect(w, r, "/x", http.StatusFound)
			},
			transportpb.TransportError_REASON_HTTP_STATUS, deliveredNo, "302",
		},
		"broken": {
			func(http.ResponseWriter, *http.Request, jsonrpc.Message) { panic(http.ErrAbortHandler) },
			transportpb.TransportError_REASON_CONNECTION, deliveredUnknown, "closed the connection",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, &scripted{post: test.post})
			c := connected(t, s.URL+"/deep/sse", nil)
			send(t, c, 1, "tools/call", `{}`)
			in, err := read(t, c)
			if err != nil || in.Failure == nil || string(in.ID) != "1" {
				t.Fatalf("%+v, %v", in, err)
			}
			if f := in.Failure; f.Reason != test.reason || f.Delivered != test.delivered || !strings.Contains(f.Message, test.text) {
				t.Errorf("%+v", f)
			}
			// The session goes on.
			s.events <- `{"jsonrpc":"2.0","method":"alive"}`
			if in, err := read(t, c); err != nil || in.Method != "alive" {
				t.Errorf("%+v, %v", in, err)
			}
		})
	}
}

func TestRefusedWithAnError(t *testing.T) {
	s := serve(t, &scripted{post: func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no"}}`)
	}})
	c := connected(t, s.URL+"/deep/sse", nil)
	send(t, c, 1, "tools/call", `{}`)
	if in, err := read(t, c); err != nil || in.Error == nil || string(in.ID) != "1" {
		t.Errorf("%+v, %v", in, err)
	}
}

// TestOversize: an answer over the limit fails its call, wherever its id
// stands; the stream goes on.
func TestOversize(t *testing.T) {
	s := serve(t, &scripted{})
	client, err := httpconn.New(httpconn.Settings{URL: s.URL + "/deep/sse"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(context.Background(), client, Settings{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	s.events <- `{"result":"` + strings.Repeat("x", 2000) + `","jsonrpc":"2.0","id":7}`
	s.events <- `{"jsonrpc":"2.0","method":"` + strings.Repeat("x", 2000) + `"}`
	s.events <- `{"jsonrpc":"2.0","id":8,"result":{}}`
	in, err := read(t, c)
	if err != nil || in.Failure == nil || string(in.ID) != "7" || in.Failure.Reason != transportpb.TransportError_REASON_OVERSIZE {
		t.Errorf("%+v, %v", in, err)
	}
	if in, err := read(t, c); err != nil || string(in.ID) != "8" {
		t.Errorf("%+v, %v", in, err)
	}
}

// TestUnreadable: an answer that can't be read fails its call at once; a batch
// is taken apart.
func TestUnreadable(t *testing.T) {
	s := serve(t, &scripted{})
	c := connected(t, s.URL+"/deep/sse", nil)
	s.events <- `{"jsonrpc":"2.0","id":7,"result":{"content":[{"te`
	s.events <- `nobody's {"id":7}`
	s.events <- `[{"jsonrpc":"2.0","id":8,"result":{}},{"jsonrpc":"2.0","method":"alive"}]`
	in, err := read(t, c)
	if err != nil || in.Failure == nil || string(in.ID) != "7" || in.Failure.Reason != transportpb.TransportError_REASON_INVALID {
		t.Errorf("%+v, %v", in, err)
	}
	for _, want := range []string{"8", "alive"} {
		if in, err := read(t, c); err != nil || string(in.ID)+in.Method != want {
			t.Errorf("%+v, %v; want %s", in, err, want)
		}
	}
}

// TestStreamEnds: that is the session's end, however it comes.
func TestStreamEnds(t *testing.T) {
	for name, finish := range map[string]func(s *scripted){
		"in order":  func(s *scripted) { close(s.events) },
		"by breach": func(s *scripted) { s.CloseClientConnections() },
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, &scripted{})
			c := connected(t, s.URL+"/deep/sse", nil)
			finish(s)
			_, err := read(t, c)
			e, ok := errors.AsType[*shared.EndError](err)
			if !ok || e.Class != transportpb.SessionEnd_CLASS_TRANSPORT || !e.Retryable || e.Message == "" {
				t.Errorf("%v", err)
			}
			if err := c.Write(t.Context(), &jsonrpc.Message{ID: []byte("1"), Method: "x"}); err == nil {
				t.Error("Write succeeds without a stream")
			}
		})
	}
}

func TestSessionLost(t *testing.T) {
	s := serve(t, &scripted{post: func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) { http.NotFound(w, r) }})
	c := connected(t, s.URL+"/deep/sse", nil)
	send(t, c, 1, "tools/call", `{}`)
	in, err := read(t, c)
	if err != nil || in.Failure == nil || in.Failure.Reason != transportpb.TransportError_REASON_SESSION_LOST || in.Failure.Delivered != deliveredNo {
		t.Errorf("%+v, %v", in, err)
	}
	_, err = read(t, c)
	if e, ok := err.(*shared.EndError); !ok || e.Class != transportpb.SessionEnd_CLASS_SESSION_LOST || !e.Retryable {
		t.Errorf("%v", err)
	}
}

// TestConnecting: what keeps a session from beginning is named.
func TestConnecting(t *testing.T) {
	for name, test := range map[string]struct {
		handler   http.HandlerFunc
		class     transportpb.SessionEnd_Class
		retryable bool
		text      string
		noStream  bool
	}{
		"405": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) },
			transportpb.SessionEnd_CLASS_CONFIG, false, `transport "http"`, true,
		},
		"404": {http.NotFound, transportpb.SessionEnd_CLASS_TRANSPORT, true, `transport "http"`, true},
		"500": {
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "boom", http.StatusInternalServerError) },
			transportpb.SessionEnd_CLASS_TRANSPORT, true, "500 Internal Server Error: boom", true,
		},
		"503": {
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "soon", http.StatusServiceUnavailable) },
			transportpb.SessionEnd_CLASS_TRANSPORT, true, "503 Service Unavailable: soon", false,
		},
		"403": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
			transportpb.SessionEnd_CLASS_AUTH, false, "403", true,
		},
		"401": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
			transportpb.SessionEnd_CLASS_AUTH, false, "401", false,
		},
		"redirect loop": {
			func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusTemporaryRedirect) },
			transportpb.SessionEnd_CLASS_CONFIG, false, "307", true,
		},
		"web page": {
			func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html><body>") },
			transportpb.SessionEnd_CLASS_PROTOCOL, false, "web page", true,
		},
		"JSON": {
			func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "application/json") },
			transportpb.SessionEnd_CLASS_PROTOCOL, false, "application/json", true,
		},
		"other origin": {
			func(w http.ResponseWriter, _ *http.Request) { event(w, "endpoint", "https://evil.example/messages") },
			transportpb.SessionEnd_CLASS_PROTOCOL, false, "origin", false,
		},
		"no endpoint": {
			func(w http.ResponseWriter, _ *http.Request) { event(w, "message", "{}") },
			transportpb.SessionEnd_CLASS_PROTOCOL, false, "does not begin", true,
		},
		"empty stream": {
			func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/event-stream") },
			transportpb.SessionEnd_CLASS_TRANSPORT, true, "before it named", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			web := httptest.NewServer(test.handler)
			t.Cleanup(web.Close)
			_, err := dial(t.Context(), web.URL, nil)
			e, ok := errors.AsType[*shared.EndError](err)
			if !ok {
				t.Fatalf("%v", err)
			}
			if e.Class != test.class || e.Retryable != test.retryable || !strings.Contains(e.Message, test.text) {
				t.Errorf("%+v", e)
			}
			if _, none := errors.AsType[*NoStream](err); none != test.noStream {
				t.Errorf("there is no stream: %t, want %t", none, test.noStream)
			}
		})
	}
}

// TestNoEndpointInTime: a server that takes the request and then says nothing.
func TestNoEndpointInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		heard := make(chan struct{})
		go func() {
			defer close(heard)
			io.Copy(io.Discard, there)
		}()
		client, err := httpconn.New(httpconn.Settings{
			URL:         "http://server/sse",
			DialContext: func(context.Context, string, string) (net.Conn, error) { return here, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = Open(t.Context(), client, Settings{})
		if e, ok := errors.AsType[*shared.EndError](err); !ok || !e.Retryable || !strings.Contains(e.Message, "no endpoint") {
			t.Errorf("%v", err)
		}
		if d := time.Since(began); d != endpointTime {
			t.Errorf("gave up after %v", d)
		}
		there.Close()
		<-heard
	})
}

// TestDialAbandoned: the host gives up on a session that has not begun.
func TestDialAbandoned(t *testing.T) {
	asked := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	}))
	t.Cleanup(web.Close)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, err := dial(ctx, web.URL, nil); err == nil {
		t.Error("dial succeeds")
	}
}
