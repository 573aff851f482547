package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-host/hermes-host/internal/httpconn"
	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

const (
	reasonConnection = transportpb.TransportError_REASON_CONNECTION
	reasonStatus     = transportpb.TransportError_REASON_HTTP_STATUS
	reasonLost       = transportpb.TransportError_REASON_SESSION_LOST
	reasonAuth       = transportpb.TransportError_REASON_AUTHORIZATION
	reasonOversize   = transportpb.TransportError_REASON_OVERSIZE
	reasonInvalid    = transportpb.TransportError_REASON_INVALID

	classTransport = transportpb.SessionEnd_CLASS_TRANSPORT
	classLost      = transportpb.SessionEnd_CLASS_SESSION_LOST
	classAuth      = transportpb.SessionEnd_CLASS_AUTH
	classConfig    = transportpb.SessionEnd_CLASS_CONFIG
	classProtocol  = transportpb.SessionEnd_CLASS_PROTOCOL
)

// TestFailedCalls: each answer that is none fails the call alone, at once, and
// the session goes on.
func TestFailedCalls(t *testing.T) {
	tests := map[string]struct {
		post      func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message)
		reason    transportpb.TransportError_Reason
		delivered transportpb.TransportError_Delivered
		text      string // in the message
	}{
		"502 with a text": {
			post: func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
				http.Error(w, "upstream \x1b[31mis down\nsecond line", http.StatusBadGateway)
			},
			reason: reasonStatus, delivered: deliveredUnknown, text: "answered 502 Bad Gateway: upstream [31mis down",
		},
		"503 with a page": {
			post: func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
				w.Header().Set("Content-Type", "text/html")
				w.Header().Set("Retry-After", "30")
				w.WriteHeader(http.StatusServiceUnavailable)
				fmt.Fprint(w, "<html>")
			},
			reason: reasonStatus, delivered: deliveredUnknown, text: "503 Service Unavailable (retry after 30)",
		},
		"a redirect that would make it a GET": {
			post: func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) {
				http.Redirect(w, r, "/elsewhere?secret", http.StatusFound)
			},
			reason: reasonStatus, delivered: deliveredNo, text: "/elsewhere; put that URL",
		},
		"401": {
			post: func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
				w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token", error_description="it \"expired\"", nonce=abc`)
				w.WriteHeader(http.StatusUnauthorized)
			},
			reason: reasonAuth, delivered: deliveredNo, text: `error "invalid_token", error_description "it \"expired\""`,
		},
		"403": {
			post: func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
				w.WriteHeader(http.StatusForbidden)
			},
			reason: reasonAuth, delivered: deliveredNo, text: "403 Forbidden",
		},
		"a stream without the answer": {
			post: func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
				event(w, ": nothing", "event: ping", "data: x")
			},
			reason: reasonConnection, delivered: deliveredUnknown, text: "the stream ended before it",
		},
		"a stream that breaks": {
			post: func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
				event(w, ": hello")
				panic(http.ErrAbortHandler)
			},
			reason: reasonConnection, delivered: deliveredUnknown, text: "the server closed the connection",
		},
		"a connection that breaks": {
			post: func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
				panic(http.ErrAbortHandler)
			},
			reason: reasonConnection, delivered: deliveredUnknown, text: "the server closed the connection",
		},
		"half an answer": {
			post: func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Content-Length", "100")
				fmt.Fprint(w, `{"jsonrpc":`)
			},
			reason: reasonConnection, delivered: deliveredUnknown, text: "in the middle",
		},
		"nothing": {
			post:   func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) { w.WriteHeader(http.StatusAccepted) },
			reason: reasonConnection, delivered: deliveredUnknown, text: "status 202 without an answer",
		},
		"no JSON": {
			post: func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, "oops")
			},
			reason: reasonInvalid, delivered: deliveredUnknown, text: "no answer",
		},
		"a web page": {
			post: func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				fmt.Fprint(w, "<html>")
			},
			reason: reasonInvalid, delivered: deliveredUnknown, text: "web page",
		},
		"too much JSON": {
			post: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
				answer(w, m, `"`+strings.Repeat("x", 100_000)+`"`)
			},
			reason: reasonOversize, delivered: deliveredUnknown, text: "limit of 65536 bytes",
		},
		"too large an event": {
			post: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
				event(w, result(m, `"`+strings.Repeat("x", 100_000)+`"`))
			},
			reason: reasonOversize, delivered: deliveredUnknown, text: "limit of 65536 bytes",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := serve(t, &scripted{post: func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
				if m.Method == "well" {
					answer(w, m, `{}`)
					return
				}
				test.post(w, r, m)
			}})
			s.Config.ErrorLog = quiet
			c := open(t, s.URL, nil)
			c.limit = 64 << 10
			handshake(t, c)
			send(t, c, 1, "call", "")
			f := failed(t, c, 1)
			wantFailure(t, f, test.reason, test.delivered)
			if !strings.Contains(f.Message, test.text) || strings.Contains(f.Message, "secret") {
				t.Errorf("message %q, want %q in it", f.Message, test.text)
			}
			send(t, c, 2, "well", "")
			if in := read(t, c); string(in.ID) != "2" || in.Result == nil {
				t.Errorf("the call after it: %+v", in)
			}
		})
	}
}

// TestUnreadableNotice: what the server tells on a call's stream and can't be
// read concerns nobody's answer.
func TestUnreadableNotice(t *testing.T) {
	s := serve(t, &scripted{post: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
		event(w, `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"x":NaN}}`)
		event(w, strings.Replace(result(m, `{}`), "{", "\ufeff{", 1))
	}})
	c := open(t, s.URL, nil)
	handshake(t, c)
	send(t, c, 1, "call", "")
	if in := read(t, c); string(in.ID) != "1" || in.Result == nil {
		t.Errorf("%+v", in)
	}
}

// TestConnecting: what keeps a session from beginning is named, with whether a
// retry can help.
func TestConnecting(t *testing.T) {
	tests := map[string]struct {
		handler   http.HandlerFunc
		class     transportpb.SessionEnd_Class
		retryable bool
		text      string
	}{
		"500": {
			handler: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "boom", http.StatusInternalServerError) },
			class:   classTransport, retryable: true, text: "500 Internal Server Error: boom",
		},
		"401": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://x/y"`)
				w.WriteHeader(http.StatusUnauthorized)
			},
			class: classAuth, text: `scheme Bearer, resource_metadata "https://x/y"`,
		},
		"a web page": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, "<html>")
			},
			class: classProtocol, text: "web page",
		},
		"404": {
			handler: http.NotFound,
			class:   classTransport, retryable: true, text: "404 Not Found",
		},
		"moved": {
			handler: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "https://new.example/mcp", http.StatusMovedPermanently)
			},
			class: classConfig, text: "https://new.example/mcp",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			web := httptest.NewServer(test.handler)
			t.Cleanup(web.Close)
			c := open(t, web.URL, nil)
			send(t, c, 1, "initialize", `{}`)
			e := end(t, c)
			if e.Class != test.class || e.Retryable != test.retryable || !strings.Contains(e.Message, test.text) {
				t.Errorf("end %v, retryable %t, %q; want %v, %t, %q", e.Class, e.Retryable, e.Message, test.class, test.retryable, test.text)
			}
		})
	}
}

func TestConnectionRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String() + "/mcp?token=hush"
	l.Close()
	for _, method := range []string{"initialize", "server/discover"} {
		c := open(t, url, nil)
		send(t, c, 1, method, `{}`)
		if e := end(t, c); e.Class != classTransport || !e.Retryable || strings.Contains(e.Message, "hush") {
			t.Errorf("%s: %+v", method, e)
		}
	}
	c := open(t, url, nil)
	c.Initialized("2025-11-25")
	send(t, c, 1, "tools/call", `{}`)
	wantFailure(t, failed(t, c, 1), reasonConnection, deliveredNo)
	if e := end(t, c); e.Class != classTransport || !e.Retryable {
		t.Errorf("%+v", e)
	}
}

// TestGoneWithCallsUnderWay: as long as one message has a connection, the others'
// failure to get one ends nothing.
func TestGoneWithCallsUnderWay(t *testing.T) {
	bubble(t, &scripted{post: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
		if m.Method == "slow" {
			time.Sleep(time.Minute)
		}
		answer(w, m, `{}`)
	}}, func(t *testing.T, c *conn, p *pipes) {
		handshake(t, c)
		send(t, c, 1, "slow", "")
		synctest.Wait()
		p.down.Store(true)
		c.client.Close()
		send(t, c, 2, "quick", "")
		send(t, c, 3, "quick", "")
		for range 2 {
			if in := read(t, c); in.Failure == nil || in.Failure.Delivered != deliveredNo {
				t.Errorf("%+v", in)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if in, err := c.Read(ctx); err != nil || in.Result == nil {
			t.Errorf("%+v, %v", in, err)
		}
		c.client.Close()
		send(t, c, 4, "quick", "")
		if e := end(t, c); e.Class != classTransport {
			t.Errorf("%+v", e)
		}
	})
}

// TestUntrustedCertificate: no retry mends it, and ca_file does.
func TestUntrustedCertificate(t *testing.T) {
	web := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(web.Close)
	web.Config.ErrorLog = quiet
	c := open(t, web.URL, nil)
	send(t, c, 1, "initialize", `{}`)
	if e := end(t, c); e.Class != classConfig || e.Retryable || len(e.Path) != 1 {
		t.Errorf("%+v", e)
	}
}

// TestSessionLost: the server answers 404 to a session that it has forgotten.
// All callers hear that they were not delivered, and the session ends once.
func TestSessionLost(t *testing.T) {
	s := serve(t, &scripted{post: func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) { answer(w, m, `{}`) }})
	c := open(t, s.URL, nil)
	handshake(t, c)
	s.forget()
	const callers = 20
	refused := 0
	for i := 1; i <= callers; i++ {
		err := c.Write(t.Context(), message(i, "tools/call", `{}`))
		if err == nil {
			continue
		}
		f, ok := err.(*shared.WriteError)
		if !ok {
			t.Fatalf("Write: %v", err)
		}
		wantFailure(t, f, reasonLost, deliveredNo)
		refused++
	}
	for range callers - refused {
		in := read(t, c)
		if in.Failure == nil {
			t.Fatalf("an answer from a lost session: %+v", in)
		}
		wantFailure(t, in.Failure, reasonLost, deliveredNo)
	}
	if e := end(t, c); e.Class != classLost || !e.Retryable {
		t.Errorf("%+v", e)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(s.requests(http.MethodDelete)); n != 0 {
		t.Errorf("%d DELETE requests for a lost session", n)
	}
}

// TestSessionLostOtherwise: servers that answer something else than 404
// (such as the examples of the TypeScript SDK).
func TestSessionLostOtherwise(t *testing.T) {
	for name, refuse := range map[string]func(w http.ResponseWriter, m jsonrpc.Message){
		"200 and an error": func(w http.ResponseWriter, m jsonrpc.Message) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"Session terminated"}}`, m.ID)
		},
		"400 and an error": func(w http.ResponseWriter, m jsonrpc.Message) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`)
		},
		"400 and a text": func(w http.ResponseWriter, m jsonrpc.Message) {
			http.Error(w, "no such session", http.StatusBadRequest)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var lost atomic.Bool
			s := serve(t, &scripted{post: func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
				if m.Method == "ping" && !lost.Load() {
					answer(w, m, `{}`)
					return
				}
				refuse(w, m)
			}})
			c := open(t, s.URL, nil)
			handshake(t, c)

			// The same words from a session that lives are an answer.
			send(t, c, 1, "tools/call", `{}`)
			if in := read(t, c); string(in.ID) != "1" || in.Error == nil && (in.Failure == nil || in.Failure.Reason != reasonStatus) {
				t.Errorf("got %+v (%v), want the server's own answer", in, in.Failure)
			}
			lost.Store(true)
			send(t, c, 2, "tools/call", `{}`)
			if f := failed(t, c, 2); f.Reason != reasonLost {
				t.Errorf("got %+v", f)
			}
			if e := end(t, c); e.Class != classLost {
				t.Errorf("%+v", e)
			}
		})
	}
}

// TestRateLimit: 429 is an answer.
func TestRateLimit(t *testing.T) {
	s := serve(t, &scripted{post: func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	}})
	c := open(t, s.URL, nil)
	handshake(t, c)
	send(t, c, 1, "tools/call", `{}`)
	if in := read(t, c); in.Error == nil || !strings.Contains(in.Error.Message, "retry after 7") {
		t.Errorf("got %+v, %v", in, in.Failure)
	}
}

// TestDiscoverRefused: a server that knows no server/discover may still know
// initialize, whatever it makes of the question, so nothing ends.
func TestDiscoverRefused(t *testing.T) {
	answers := map[string]func(w http.ResponseWriter){
		"a 500": func(w http.ResponseWriter) { http.Error(w, "what?", http.StatusInternalServerError) },
		"a stream without an event": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
		},
		"no body": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusOK)
		},
		"a 202": func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) },
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if text, _ := io.ReadAll(r.Body); strings.Contains(string(text), "server/discover") {
					answer(w)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"jsonrpc":"2.0","id":2,"result":{}}`)
			}))
			t.Cleanup(web.Close)
			c := open(t, web.URL, nil)
			send(t, c, 1, "server/discover", `{}`)
			f := failed(t, c, 1)
			want := f.Reason
			if name == "a 500" {
				want = reasonStatus
			}
			wantFailure(t, f, want, deliveredUnknown)
			send(t, c, 2, "initialize", `{}`)
			if in := read(t, c); string(in.ID) != "2" || in.Failure != nil || in.Error != nil {
				t.Errorf("initialize got %+v", in)
			}
		})
	}
}

// TestHeadersStayHome: the user's headers go to no other host, and appear in no
// message.
func TestHeadersStayHome(t *testing.T) {
	got := make(chan http.Header, 2)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header
		http.Error(w, "you sent "+r.Header.Get("Authorization")+" and Bearer hush-hush", http.StatusBadGateway)
	}))
	t.Cleanup(other.Close)
	elsewhere := strings.Replace(other.URL, "127.0.0.1", "localhost", 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(web.Close)
	c := open(t, web.URL, map[string]string{"Authorization": "Bearer hush-hush", "X-Api-Key": "hush-too"})
	c.Initialized("2025-11-25")
	send(t, c, 1, "tools/call", `{}`)
	f := failed(t, c, 1)
	h := <-got
	if h.Get("Authorization") != "" || h.Get("X-Api-Key") != "" {
		t.Errorf("another host got %v", h)
	}
	if strings.Contains(f.Message, "hush") {
		t.Errorf("a secret in %q", f.Message)
	}
}

// TestSameHostRedirect: frameworks redirect /mcp to /mcp/; that is followed,
// and remembered.
func TestSameHostRedirect(t *testing.T) {
	var direct, redirected atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/mcp/" {
			redirected.Add(1)
			http.Redirect(w, r, "/mcp/", http.StatusTemporaryRedirect)
			return
		}
		direct.Add(1)
		if r.Header.Get("X-Api-Key") != "k" {
			t.Error("the header is gone")
		}
		answer(w, jsonrpc.Message{ID: []byte("1")}, `{}`)
	}))
	t.Cleanup(web.Close)
	c := open(t, web.URL+"/mcp", map[string]string{"X-Api-Key": "k"})
	c.Initialized("2025-11-25")
	for range 3 {
		send(t, c, 1, "tools/call", `{}`)
		if in := read(t, c); in.Result == nil {
			t.Fatalf("%+v %v", in, in.Failure)
		}
	}
	if direct.Load() != 3 || redirected.Load() != 1 {
		t.Errorf("%d direct requests, %d redirected; want 3, 1", direct.Load(), redirected.Load())
	}
}

// TestStaleConnection: a request on a connection that the server closes
// without reading has an unknown outcome, and the message says what happened.
func TestStaleConnection(t *testing.T) {
	var accepted atomic.Int32
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			go func() {
				defer conn.Close()
				buf := make([]byte, 4096)
				conn.Read(buf)
				fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 36\r\n\r\n"+`{"jsonrpc":"2.0","id":1,"result":{}}`)
				conn.Read(buf) // the second request is read, and dropped
			}()
		}
	}()
	c := open(t, "http://"+l.Addr().String(), nil)
	c.Initialized("2025-11-25")
	send(t, c, 1, "tools/call", `{}`)
	if in := read(t, c); in.Result == nil {
		t.Fatalf("%+v %v", in, in.Failure)
	}
	send(t, c, 2, "tools/call", `{}`)
	f := failed(t, c, 2)
	wantFailure(t, f, reasonConnection, deliveredUnknown)
	if accepted.Load() != 1 || !strings.Contains(f.Message, "closed the connection") {
		t.Errorf("%d connections, %q", accepted.Load(), f.Message)
	}
}

// TestCloseIsBounded: a server that never answers the DELETE holds up nobody.
func TestCloseIsBounded(t *testing.T) {
	done := make(chan struct{})
	s := serve(t, &scripted{})
	hang := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			<-done
			return
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(hang.Close)
	t.Cleanup(func() { close(done) })
	client, err := httpconn.New(httpconn.Settings{URL: hang.URL})
	if err != nil {
		t.Fatal(err)
	}
	c := newConn(client, 0, nil)
	handshake(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
	if d := time.Since(began); d > time.Second {
		t.Errorf("Close took %v", d)
	}
}
