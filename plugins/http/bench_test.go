package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// BenchmarkCall measures one call after the other through a connection, with
// answers as JSON and as a stream, small and large. A bare POST by net/http is
// the measure of what it costs at least.
func BenchmarkCall(b *testing.B) {
	for name, size := range map[string]int{"small": 100, "1MiB": 1 << 20} {
		body := `{"jsonrpc":"2.0","id":1,"result":{"text":"` + strings.Repeat("x", size) + `"}}`
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if r.URL.Path == "/stream" {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "data: "+body+"\n\n")
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, body)
		}))
		b.Cleanup(web.Close)
		b.Run("bare/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				resp, err := http.Post(web.URL, "application/json", strings.NewReader(`{}`))
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			http.DefaultClient.CloseIdleConnections()
		})
		for _, how := range []string{"json", "stream"} {
			b.Run(how+"/"+name, func(b *testing.B) {
				c, err := dial(b.Context(), shared.Session{}, config{URL: web.URL + "/" + how})
				if err != nil {
					b.Fatal(err)
				}
				c.(*conn).Initialized("2025-11-25")
				m := &jsonrpc.Message{ID: []byte("1"), Method: "tools/call", Params: json.RawMessage(`{"name":"echo","arguments":{}}`)}
				b.ReportAllocs()
				for b.Loop() {
					if err := c.Write(b.Context(), m); err != nil {
						b.Fatal(err)
					}
					if in, err := c.Read(b.Context()); err != nil || in.Result == nil {
						b.Fatal(in, err)
					}
				}
				if err := c.Close(context.Background()); err != nil {
					b.Error(err)
				}
			})
		}
	}
}
