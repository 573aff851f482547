package gateway

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/host/session"
)

// instant answers every call with the same result.
type instant struct {
	*fake
	result session.Reply
}

func (i instant) Handle(context.Context, relay.Call) session.Reply { return i.result }

// discard is a ResponseWriter that costs nothing.
type discard struct{ h http.Header }

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

func benchGateway(b *testing.B, size int) (*Gateway, []string) {
	e := instant{newFake(), textResult(string(bytes.Repeat([]byte("x"), size)))}
	g := New(Config{Endpoints: func(string) (relay.Endpoint, bool) { return e, true }})
	s := g.sessions.open("", e, version20251125, nil)
	s.release()
	b.Cleanup(func() { _ = g.Shutdown(context.Background()) })
	return g, []string{headerSession, s.id, headerVersion, version20251125}
}

// BenchmarkFront is the gateway's own share of a call, without net/http.
func BenchmarkFront(b *testing.B) {
	for _, era := range []string{"session", "stateless"} {
		b.Run(era, func(b *testing.B) {
			g, headers := benchGateway(b, 100)
			body := []byte(toolCall("1", "echo"))
			if era == "stateless" {
				headers, body = modernHeaders("tools/call", "echo"), []byte(modernCall("1", "echo"))
			}
			r := benchRequest("http://localhost/mcp", headers)
			w := &discard{h: make(http.Header)}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.h)
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
				g.ServeHTTP(w, r)
			}
		})
	}
}

func benchRequest(url string, headers []string) *http.Request {
	r := httptest.NewRequest("POST", url, nil)
	r.RequestURI = ""
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// BenchmarkHTTP is a call through a real server and a real client.
func BenchmarkHTTP(b *testing.B) {
	for _, c := range []struct {
		name string
		size int
		era  string
	}{{"session", 100, ""}, {"stateless", 100, "stateless"}, {"session 1 MiB", 1 << 20, ""}, {"stateless 1 MiB", 1 << 20, "stateless"}} {
		b.Run(c.name, func(b *testing.B) {
			g, headers := benchGateway(b, c.size)
			srv := httptest.NewUnstartedServer(g)
			srv.Config = g.Server()
			srv.Start()
			defer srv.Close()
			body := []byte(toolCall("1", "echo"))
			if c.era != "" {
				headers, body = modernHeaders("tools/call", "echo"), []byte(modernCall("1", "echo"))
			}
			client := srv.Client()
			client.Transport.(*http.Transport).MaxIdleConnsPerHost = 64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r := benchRequest(srv.URL+"/mcp", headers)
					r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
					res, err := client.Do(r)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			})
		})
	}
}
