package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/plugintest"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// counted is a server that changes and counts what comes to its URL: the
// methods of HTTP, without those of the messages of an older session.
type counted struct {
	mu      sync.Mutex
	handler http.Handler
	got     []string
}

func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	h := c.handler
	if r.URL.RawQuery == "" {
		c.got = append(c.got, r.Method)
	}
	c.mu.Unlock()
	h.ServeHTTP(w, r)
}

// is replaces the server, and returns what the one before has got.
func (c *counted) is(h http.Handler) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.got
	c.got = nil
	if h != nil {
		c.handler = h
	}
	return got
}

// TestOlderTransport: a server of HTTP+SSE alone is found out once. Later
// sessions, in other processes, begin as it wants them to; and if it speaks the
// newer transport one day, that costs nobody a session.
func TestOlderTransport(t *testing.T) {
	get := func(*http.Request) *mcp.Server { return sdkServer() }
	sse, streamable := mcp.NewSSEHandler(get, nil), mcp.NewStreamableHTTPHandler(get, nil)
	with := func(status int, body string) http.Handler { // as frameworks answer what they have no handler for
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && r.URL.RawQuery == "" {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				_, _ = w.Write([]byte(body))
				return
			}
			sse.ServeHTTP(w, r)
		})
	}
	server := &counted{handler: sse}
	web := httptest.NewServer(server)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	config := []byte(block(web.URL + "/sse"))

	connect := func(learnt []byte) *transportpb.SessionInit {
		t.Helper()
		s := plugintest.Start(t, os.Args[0], envPlugin+"=1").Open(t, &transportpb.OpenSession{Config: config, Learnt: learnt})
		if s.Init == nil {
			t.Fatalf("no session: %v", s.AwaitEnd())
		}
		_, listed := s.Go("tools/list", `{}`)
		if r := s.Await(listed); r.GetResult() == nil {
			t.Errorf("no tools: %v", r)
		}
		s.CloseSession()
		s.AwaitEnd()
		return s.Init
	}
	want := func(got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("the server got %q, want %q", got, want)
		}
	}
	for name, h := range map[string]http.Handler{
		"400": sse, "404": with(404, "<h1>Cannot POST"), "405": with(405, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Method not allowed."},"id":null}`),
	} {
		t.Run(name, func(t *testing.T) {
			server.is(h)
			first := connect(nil)
			want(server.is(nil), "POST", "POST", "GET", "GET")
			if len(first.Learnt) == 0 || !strings.Contains(first.Advice, `transport "sse"`) {
				t.Fatalf("learnt %q, advice %q", first.Learnt, first.Advice)
			}
			second := connect(first.Learnt)
			want(server.is(nil), "GET")
			if second.Learnt != nil || second.Advice != first.Advice {
				t.Errorf("learnt %q, advice %q", second.Learnt, second.Advice)
			}
			for _, status := range []int{0, 403, 410, 500, 501} { // how the updated server answers a GET
				server.is(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodGet && status != 0 {
						w.WriteHeader(status)
						return
					}
					streamable.ServeHTTP(w, r)
				}))
				third := connect(first.Learnt)
				if got := server.is(nil); len(got) < 2 || got[0] != "GET" || got[1] != "POST" {
					t.Errorf("the updated server got %q", got)
				}
				if third.Learnt == nil || len(third.Learnt) > 0 || third.Advice != "" {
					t.Errorf("learnt %q, advice %q", third.Learnt, third.Advice)
				}
			}
		})
	}
}

// TestOlderTransportOutOfReach: what can't be reached has not changed, so the
// plugin does not try other ways.
func TestOlderTransportOutOfReach(t *testing.T) {
	server := &counted{handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "in a moment", http.StatusServiceUnavailable)
	})}
	web := httptest.NewServer(server)
	t.Cleanup(web.Close)
	s := plugintest.Start(t, os.Args[0], envPlugin+"=1").Open(t, &transportpb.OpenSession{
		Config: []byte(block(web.URL)), Learnt: []byte(`{"conn":"sse"}`),
	})
	if end := s.AwaitEnd(); end.GetClass() != classTransport || !end.GetRetryable() || !strings.Contains(end.GetMessage(), "in a moment") {
		t.Errorf("%v", end)
	}
	if got := server.is(nil); !slices.Equal(got, []string{"GET"}) {
		t.Errorf("the server got %q", got)
	}
}

// TestSilentStream: a stream that names no endpoint is the newer transport's.
func TestSilentStream(t *testing.T) {
	s := &scripted{get: func(w http.ResponseWriter, r *http.Request) {
		event(w, ": hello")
		<-r.Context().Done()
	}}
	bubble(t, s, func(t *testing.T, c *conn, _ *pipes) {
		began := time.Now()
		if older, err := dialOlder(t.Context(), shared.Session{}, c.client); older != nil || err != nil {
			t.Errorf("got %v, %v", older, err)
		}
		if d := time.Since(began); d != checkTime {
			t.Errorf("gave up after %v", d)
		}
	})
}
