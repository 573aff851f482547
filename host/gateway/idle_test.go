package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-host/hermes-host/host/relay"
)

// bubble is a gateway without a network, for tests of time.
type bubble struct {
	*fake
	g *Gateway
}

func newBubble(cfg Config) *bubble {
	b := &bubble{fake: newFake()}
	cfg.Endpoints = func(string) (relay.Endpoint, bool) { return b.fake, true }
	b.g = New(cfg)
	return b
}

func (b *bubble) do(method, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	b.g.ServeHTTP(w, r)
	return w
}

func (b *bubble) initialize(t *testing.T) []string {
	t.Helper()
	w := b.do("POST", stdioInit)
	if w.Code != 200 {
		t.Fatalf("initialize: %d %s", w.Code, w.Body)
	}
	return []string{headerSession, w.Header().Get(headerSession)}
}

const testPing = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

func TestSessionExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(Config{})
		h := b.initialize(t)
		// Any request keeps it.
		for range 5 {
			time.Sleep(29 * time.Minute)
			if w := b.do("POST", testPing, h...); w.Code != 200 {
				t.Fatalf("after 29 minutes: %d %s", w.Code, w.Body)
			}
		}
		time.Sleep(30*time.Minute + time.Second)
		if w := b.do("POST", testPing, h...); w.Code != http.StatusNotFound {
			t.Fatalf("after 30 minutes: %d %s", w.Code, w.Body)
		}
		if len(b.clients()) != 0 || b.g.Sessions() != 0 {
			t.Fatal("the expired session is still joined")
		}
	})
}

func TestSessionWithCallDoesNotExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(Config{})
		h := b.initialize(t)
		done := make(chan *httptest.ResponseRecorder, 1)
		go func() { done <- b.do("POST", toolCall("1", "wait"), h...) }()
		<-b.entered
		time.Sleep(5 * time.Hour)
		close(b.release)
		if w := <-done; w.Code != 200 || !strings.Contains(w.Body.String(), "released") {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		time.Sleep(29 * time.Minute)
		if w := b.do("POST", testPing, h...); w.Code != 200 {
			t.Fatalf("%d", w.Code)
		}
		if err := b.g.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSessionWithStreamDoesNotExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(Config{})
		h := b.initialize(t)
		done := make(chan *httptest.ResponseRecorder, 1)
		go func() { done <- b.do("GET", "", h...) }()
		time.Sleep(5 * time.Hour)
		if b.g.Sessions() != 1 {
			t.Fatal("a session with a stream has expired")
		}
		if err := b.g.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count((<-done).Body.String(), ": keep-alive\n\n"); n != 5*60*4 {
			t.Fatalf("%d keep-alive comments in 5 hours", n)
		}
	})
}

func TestSessionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(Config{MaxSessions: 2})
		first := b.initialize(t)
		time.Sleep(time.Second)
		second := b.initialize(t)
		// Both were used a moment ago: no room.
		w := b.do("POST", stdioInit)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || len(b.clients()) != 2 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		time.Sleep(2 * time.Minute)
		b.do("POST", testPing, first...)
		b.initialize(t) // in the place of the second, idle for longest
		if b.do("POST", testPing, first...).Code != 200 || b.do("POST", testPing, second...).Code != 404 || len(b.clients()) != 2 {
			t.Fatal("the wrong session made room")
		}
		b.g.End("")
		if b.g.Sessions() != 0 || len(b.clients()) != 0 {
			t.Fatal("End left sessions")
		}
	})
}

func TestQuietCallBecomesAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(Config{})
		h := b.initialize(t)
		done := make(chan *httptest.ResponseRecorder, 1)
		go func() { done <- b.do("POST", toolCall("1", "wait"), h...) }()
		<-b.entered
		time.Sleep(time.Minute)
		close(b.release)
		w := <-done
		if w.Header().Get("Content-Type") != "text/event-stream" || !strings.HasPrefix(w.Body.String(), "id: 1_1\nretry: ") ||
			strings.Count(w.Body.String(), ": keep-alive") != 3 || !strings.Contains(w.Body.String(), "released") {
			t.Fatalf("%q", w.Body)
		}
		b.g.sessions.endAll(errShutdown)
	})
}
