package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// A page of an accepted origin can do in a browser what the protocol needs.
func TestCORS(t *testing.T) {
	f := newFront(t, func(c *Config) { c.AllowedOrigins = []string{"https://app.example.com"} })
	preflight := []string{
		"Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "authorization,content-type,mcp-param-region,mcp-session-id",
		"Access-Control-Request-Private-Network", "true",
	}
	for origin, ok := range map[string]bool{"https://app.example.com": true, "http://localhost:6274": true, "https://evil.example.com": false} {
		res := f.do(http.MethodOptions, "", append([]string{"Origin", origin}, preflight...)...)
		if !ok {
			if res.status != 403 || res.header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: %d %v", origin, res.status, res.header)
			}
			continue
		}
		for name, want := range map[string]string{
			"Access-Control-Allow-Origin":          origin,
			"Access-Control-Allow-Methods":         "GET, POST, DELETE, OPTIONS",
			"Access-Control-Allow-Headers":         "authorization,content-type,mcp-param-region,mcp-session-id",
			"Access-Control-Allow-Private-Network": "true",
			"Access-Control-Allow-Credentials":     "",
		} {
			if got := res.header.Get(name); res.status != 204 || got != want {
				t.Errorf("%s: %d %s: %q, want %q", origin, res.status, name, got, want)
			}
		}
		res = f.do("POST", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, "Origin", origin)
		if res.status != 200 || res.header.Get("Access-Control-Allow-Origin") != origin ||
			res.header.Get("Access-Control-Expose-Headers") != "Mcp-Session-Id, Mcp-Protocol-Version, WWW-Authenticate, Retry-After" {
			t.Errorf("%s: initialize: %d %v", origin, res.status, res.header)
		}
	}
	if res := f.do("POST", `{}`); res.header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("a client that is no page is told of origins")
	}
	if res := f.do(http.MethodOptions, ""); res.status != 405 {
		t.Errorf("OPTIONS of no browser: %d", res.status)
	}
}

// What stands before the gateway is not asked about a browser's question, and
// its own answers can be read by the page.
func TestCORSBeforeOthers(t *testing.T) {
	f := newFront(t, nil)
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	for method, want := range map[string]int{http.MethodOptions: 204, http.MethodPost: 401} {
		r := httptest.NewRequest(method, "http://localhost/mcp", nil)
		r.Header.Set("Origin", "http://localhost:6274")
		r.Header.Set("Access-Control-Request-Method", "POST")
		w := httptest.NewRecorder()
		f.g.CORS(refuse).ServeHTTP(w, r)
		if w.Code != want || w.Header().Get("Access-Control-Allow-Origin") != "http://localhost:6274" {
			t.Errorf("%s: %d %v", method, w.Code, w.Header())
		}
	}
}

// A session can be asked outside of a call over its own stream, and says so if
// there is none.
func TestAskingASession(t *testing.T) {
	f := newFront(t, nil)
	headers := f.initialize("2025-11-25")
	asker, ok := f.clients()[0].(relay.Stream)
	if !ok {
		t.Fatal("sessions can't be asked")
	}
	if _, err := asker.Request(t.Context(), "roots/list", nil); err != errNoWay {
		t.Errorf("without a stream: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := f.open(ctx, "GET", "", headers...)
	s.next() // the priming event: the stream is there
	answer := make(chan string, 1)
	go func() {
		reply, err := asker.Request(ctx, "roots/list", nil)
		answer <- string(reply.Result) + jsonError(err)
	}()
	m, _ := s.message()
	if m.Method != "roots/list" {
		t.Fatalf("the client got %+v", m)
	}
	f.post(string((&jsonrpc.Message{ID: m.ID, Result: []byte(`{"roots":[]}`)}).Append(nil)), headers...)
	if got := <-answer; got != `{"roots":[]}` {
		t.Errorf("answer %s", got)
	}
}

func jsonError(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
