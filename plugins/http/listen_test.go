package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-host/hermes-host/internal/httpconn"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// pipes is a network within a synctest bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	down   atomic.Bool // nobody listens
	dials  atomic.Int32
	forget time.Duration // what is idle for so long is dropped without a word; 0: nothing is
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	p.dials.Add(1)
	if p.down.Load() {
		return nil, &net.OpError{Op: "dial", Err: fmt.Errorf("connection refused")}
	}
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		if p.forget > 0 {
			return &forgetful{Conn: here, after: p.forget, last: time.Now()}, nil
		}
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// bubble runs a test against a scripted server in simulated time.
func bubble(t *testing.T, s *scripted, test func(t *testing.T, c *conn, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		s.session = "s1"
		server := &http.Server{Handler: s, ErrorLog: quiet, IdleTimeout: s.idle}
		served := make(chan struct{})
		go func() { defer close(served); server.Serve(p) }()
		client, err := httpconn.New(httpconn.Settings{URL: "http://server/mcp", DialContext: p.dial})
		if err != nil {
			t.Fatal(err)
		}
		c := newConn(client, 0, nil)
		test(t, c, p)
		p.down.Store(true)
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		server.Close()
		<-served
	})
}

// later reads the next message, however long that takes in simulated time.
func later(t *testing.T, c *conn) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	in, err := c.Read(ctx)
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	return in.Method
}

// silent checks that nothing comes for an hour.
func silent(t *testing.T, c *conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if in, err := c.Read(ctx); err == nil || ctx.Err() == nil {
		t.Errorf("got %+v, %v", in, err)
	}
}

// TestNoStream: 405 means that there is none.
func TestNoStream(t *testing.T) {
	for _, status := range []int{http.StatusMethodNotAllowed, http.StatusNotFound, http.StatusNoContent} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			s := &scripted{
				get:  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) },
				post: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) { answer(w, m, `{}`) },
			}
			bubble(t, s, func(t *testing.T, c *conn, _ *pipes) {
				handshake(t, c)
				silent(t, c)
				if n := len(s.requests(http.MethodGet)); n != 1 {
					t.Errorf("%d GET requests, want 1", n)
				}
			})
		})
	}
}

// TestStreamIsReopened: a stream that breaks is opened again, and
// the lists whose changes may have been missed count as changed.
func TestStreamIsReopened(t *testing.T) {
	var opened atomic.Int32
	s := &scripted{}
	s.get = func(w http.ResponseWriter, r *http.Request) {
		switch opened.Add(1) {
		case 1:
			event(w, `data: {"jsonrpc":"2.0","method":"first"}`)
			panic(http.ErrAbortHandler)
		case 2, 3:
			w.WriteHeader(http.StatusBadGateway)
		default:
			event(w, `data: {"jsonrpc":"2.0","method":"second"}`)
			<-r.Context().Done()
		}
	}
	bubble(t, s, func(t *testing.T, c *conn, _ *pipes) {
		handshake(t, c)
		began := time.Now()
		for _, want := range []string{"first", "notifications/tools/list_changed", "notifications/prompts/list_changed", "second"} {
			if got := later(t, c); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		if d := time.Since(began); d < 3*reopenBase/2 || d > 10*reopenBase {
			t.Errorf("reopening took %v", d)
		}
		silent(t, c)
		if n := opened.Load(); n != 4 {
			t.Errorf("%d GET requests, want 4", n)
		}
	})
}

// TestStreamOfAFlappingServer: streams that end at once are opened less and
// less often.
func TestStreamOfAFlappingServer(t *testing.T) {
	var opened atomic.Int32
	s := &scripted{get: func(w http.ResponseWriter, r *http.Request) {
		opened.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
	}}
	bubble(t, s, func(t *testing.T, c *conn, _ *pipes) {
		handshake(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for {
			if _, err := c.Read(ctx); err != nil {
				break
			}
		}
		if n := opened.Load(); n < 50 || n > 150 {
			t.Errorf("%d GET requests in an hour", n)
		}
	})
}

// TestStreamOfAPollingServer: a server that ends a numbered stream in order, and
// says when to come back, has lost nothing (SEP-1699).
func TestStreamOfAPollingServer(t *testing.T) {
	var opened atomic.Int32
	s := &scripted{get: func(w http.ResponseWriter, r *http.Request) {
		n := opened.Add(1)
		if n > 1 && r.Header.Get("Last-Event-Id") != fmt.Sprintf("e%d", n-1) {
			t.Errorf("GET %d resumes after %q", n, r.Header.Get("Last-Event-Id"))
		}
		event(w, "retry: 3000", fmt.Sprintf("id: e%d", n), "data:")
	}}
	bubble(t, s, func(t *testing.T, c *conn, _ *pipes) {
		handshake(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), 59*time.Minute)
		defer cancel()
		if in, err := c.Read(ctx); err == nil {
			t.Errorf("got %+v", in)
		}
		if n := opened.Load(); n < 1100 || n > 1200 {
			t.Errorf("%d GET requests in 59 minutes, want one every 3 s", n)
		}
	})
}

// TestServerGone: the stream breaks, and nobody accepts connections any more.
func TestServerGone(t *testing.T) {
	var broken chan struct{}
	s := &scripted{get: func(w http.ResponseWriter, r *http.Request) {
		event(w, ": hello")
		<-broken
		panic(http.ErrAbortHandler)
	}}
	bubble(t, s, func(t *testing.T, c *conn, p *pipes) {
		broken = make(chan struct{})
		handshake(t, c)
		synctest.Wait()
		p.down.Store(true)
		began := time.Now()
		c.client.Close() // an idle connection would still be good
		close(broken)
		if e := end(t, c); e.Class != classTransport || !e.Retryable {
			t.Errorf("%+v", e)
		}
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("noticed after %v", d)
		}
	})
}

// TestServerRestarted: the stream breaks, and the new server does not know the
// session.
func TestServerRestarted(t *testing.T) {
	var broken chan struct{}
	s := &scripted{get: func(w http.ResponseWriter, r *http.Request) {
		event(w, ": hello")
		<-broken
		panic(http.ErrAbortHandler)
	}}
	bubble(t, s, func(t *testing.T, c *conn, _ *pipes) {
		broken = make(chan struct{})
		handshake(t, c)
		synctest.Wait()
		s.forget()
		close(broken)
		if e := end(t, c); e.Class != classLost {
			t.Errorf("%+v", e)
		}
	})
}

// TestResume: the stream of an answer is numbered and ends without it, so it is
// resumed, when the server wishes it to be.
func TestResume(t *testing.T) {
	s := &scripted{
		post: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			event(w, "retry: 2500", "id: a1", "data:")
		},
		get: func(w http.ResponseWriter, r *http.Request) {
			switch r.Header.Get("Last-Event-Id") {
			case "":
				w.WriteHeader(http.StatusMethodNotAllowed)
			case "a1":
				event(w, "id: a2", `data: {"jsonrpc":"2.0","method":"notifications/progress"}`)
			case "a2":
				event(w, "id: a3", `data: {"jsonrpc":"2.0","id":1,"result":{}}`)
			}
		},
	}
	bubble(t, s, func(t *testing.T, c *conn, _ *pipes) {
		handshake(t, c)
		began := time.Now()
		send(t, c, 1, "tools/call", `{}`)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if in, err := c.Read(ctx); err != nil || in.Method != "notifications/progress" || in.Related != 1 {
			t.Errorf("%+v, %v", in, err)
		}
		if in, err := c.Read(ctx); err != nil || string(in.ID) != "1" || in.Result == nil {
			t.Errorf("%+v, %v", in, err)
		}
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("took %v, want twice 2.5 s", d)
		}
	})
}

// TestResumeInVain: attempts are bounded, and some answers end them at once.
func TestResumeInVain(t *testing.T) {
	for name, test := range map[string]struct {
		get      http.HandlerFunc
		attempts int
	}{
		"always the same": {func(w http.ResponseWriter, _ *http.Request) { event(w, ": nothing") }, resumeAttempts},
		"502":             {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, resumeAttempts},
		"400":             {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }, 1},
		"405":             {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var attempts atomic.Int32
			s := &scripted{
				post: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) { event(w, "id: a1", "data:") },
				get: func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Last-Event-Id") == "" {
						w.WriteHeader(http.StatusMethodNotAllowed)
						return
					}
					attempts.Add(1)
					test.get(w, r)
				},
			}
			bubble(t, s, func(t *testing.T, c *conn, _ *pipes) {
				handshake(t, c)
				send(t, c, 1, "tools/call", `{}`)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				in, err := c.Read(ctx)
				if err != nil || in.Failure == nil {
					t.Fatalf("%+v, %v", in, err)
				}
				wantFailure(t, in.Failure, reasonConnection, deliveredUnknown)
				if n := int(attempts.Load()); n != test.attempts {
					t.Errorf("%d attempts, want %d", n, test.attempts)
				}
			})
		})
	}
}
