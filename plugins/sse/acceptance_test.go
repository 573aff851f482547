package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/plugintest"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// front puts a Peer behind HTTP+SSE.
type front struct {
	*httptest.Server
	peer *plugintest.Peer
	stop context.Context // ends with the test

	mu       sync.Mutex
	streams  map[string]func([]byte) // by session
	sessions int
}

func newFront(t *testing.T) *front {
	ctx, stop := context.WithCancel(context.Background())
	f := &front{stop: ctx, streams: map[string]func([]byte){}}
	f.peer = &plugintest.Peer{Era: plugintest.LegacyOnly, Crash: func() {
		f.Listener.Close()
		f.CloseClientConnections()
	}}
	f.Server = httptest.NewUnstartedServer(f)
	f.Config.ErrorLog = quiet
	f.Start()
	t.Cleanup(func() {
		stop()
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		f.open(w, r)
		return
	}
	f.mu.Lock()
	send := f.streams[r.URL.Query().Get("session")]
	f.mu.Unlock()
	text, err := io.ReadAll(r.Body)
	if send == nil || err != nil {
		http.Error(w, "no such session", http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	if m, err := jsonrpc.Parse(text); err == nil && m.IsRequest() {
		go f.peer.Handle(f.stop, text, send)
		return
	}
	f.peer.Handle(f.stop, text, send)
}

// open serves a stream until its client goes away.
func (f *front) open(w http.ResponseWriter, r *http.Request) {
	events := make(chan []byte)
	f.mu.Lock()
	f.sessions++
	id := fmt.Sprint("s", f.sessions)
	f.streams[id] = func(text []byte) {
		select {
		case events <- text:
		case <-r.Context().Done():
		case <-f.stop.Done():
		}
	}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.streams, id)
		f.mu.Unlock()
	}()
	event(w, "endpoint", "/messages?session="+id)
	for {
		select {
		case text := <-events:
			event(w, "message", strings.NewReplacer("\r\n", "\ndata: ", "\n", "\ndata: ").Replace(string(text)))
		case <-r.Context().Done():
			return
		case <-f.stop.Done():
			return
		}
	}
}

func event(w http.ResponseWriter, name, data string) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, data)
	w.(http.Flusher).Flush()
}

func block(url string) string { return fmt.Sprintf(`{"url":%q}`, url) }

// TestAcceptance runs the plugin as a process.
func TestAcceptance(t *testing.T) {
	plugintest.Run(t, plugintest.Suite{
		Binary: os.Args[0],
		Env:    []string{envPlugin + "=1"},
		Config: func(t *testing.T) string { return block(newFront(t).URL) },
		Invalid: map[string]string{
			"url":             `{"url":"example.com/sse"}`,
			"headers":         `{"url":"https://example.com","headers":{"A B":"c"}}`,
			"client_key_file": `{"url":"https://example.com","client_key_file":"/no/such/file"}`,
		},
		Unreachable: block("http://127.0.0.1:1"),
	})
}

// TestNewEndpoint: after the end of a stream a new session has an
// endpoint and a handshake of its own.
func TestNewEndpoint(t *testing.T) {
	p := plugintest.Start(t, os.Args[0], envPlugin+"=1")
	f := newFront(t)
	s := p.Open(t, &transportpb.OpenSession{Config: []byte(block(f.URL))})
	if r := s.Tool("echo", `{"value":1}`); r.GetResult() == nil {
		t.Fatalf("the first session: %v", r)
	}
	f.CloseClientConnections()
	if end := s.AwaitEnd(); end.GetClass() != transportpb.SessionEnd_CLASS_TRANSPORT || !end.GetRetryable() {
		t.Errorf("got %v", end)
	}
	s = p.Open(t, &transportpb.OpenSession{Config: []byte(block(f.URL))})
	if r := s.Tool("echo", `{"value":1}`); r.GetResult() == nil {
		t.Errorf("the second session: %v", r)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sessions != 2 {
		t.Errorf("%d streams were opened, want 2", f.sessions)
	}
}
