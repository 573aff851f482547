package main

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// forgetful is a connection through something like a load balancer that drops
// idle ones without telling either end.
type forgetful struct {
	net.Conn
	after time.Duration

	mu   sync.Mutex
	last time.Time
}

func (f *forgetful) Write(p []byte) (int, error) {
	f.mu.Lock()
	gone := time.Since(f.last) >= f.after
	if !gone {
		f.last = time.Now()
	}
	f.mu.Unlock()
	if gone {
		return len(p), nil
	}
	return f.Conn.Write(p)
}

// TestIdleConnections: a connection that was idle is not used when the other end
// may have let go of it. The next call is answered, on a new one.
func TestIdleConnections(t *testing.T) {
	for name, test := range map[string]struct {
		says   string        // Keep-Alive header of the server
		closes time.Duration // when the server closes an idle connection
		forget time.Duration // when something on the way forgets it
		pause  time.Duration // between calls
	}{
		"the server closes it":             {closes: 10 * time.Second, pause: 20 * time.Second},
		"the server says when it will":     {says: "timeout=5, max=100", closes: 5 * time.Second, pause: 5 * time.Second},
		"and the call comes just before":   {says: "timeout=5", closes: 5 * time.Second, pause: 4500 * time.Millisecond},
		"a load balancer drops it, mutely": {forget: time.Minute, pause: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{idle: test.closes, post: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
				if test.says != "" {
					w.Header().Set("Keep-Alive", test.says)
				}
				answer(w, m, `{}`)
			}}
			bubble(t, s, func(t *testing.T, c *conn, p *pipes) {
				p.forget = test.forget
				handshake(t, c)
				for i := 1; i <= 20; i++ {
					before := p.dials.Load()
					send(t, c, i, "tools/call", `{}`)
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					in, err := c.Read(ctx)
					cancel()
					if err != nil || in.Result == nil {
						t.Fatalf("call %d: %+v, %v", i, in.Failure, err)
					}
					// The handshake may have left connections that were never used.
					if n := p.dials.Load() - before; i > 3 && n != 1 {
						t.Errorf("call %d made %d connections, want 1", i, n)
					}
					time.Sleep(test.pause)
					synctest.Wait()
				}
			})
		})
	}
}
