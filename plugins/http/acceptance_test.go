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

// front puts a Peer behind streamable HTTP. Every answer is a stream.
type front struct {
	*httptest.Server
	peer *plugintest.Peer
	stop context.Context // ends with the test

	mu       sync.Mutex
	sessions map[string]bool
}

func newFront(t *testing.T, era plugintest.Era) *front {
	ctx, stop := context.WithCancel(context.Background())
	f := &front{stop: ctx, sessions: map[string]bool{}}
	f.peer = &plugintest.Peer{Era: era, Crash: func() {
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
	id := r.Header.Get("Mcp-Session-Id")
	f.mu.Lock()
	known := id == "" || f.sessions[id]
	if r.Method == http.MethodDelete {
		delete(f.sessions, id)
	}
	f.mu.Unlock()
	switch {
	case !known:
		http.Error(w, "session not found", http.StatusNotFound)
		return
	case r.Method == http.MethodDelete:
		return
	case r.Method == http.MethodGet:
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-f.stop.Done():
		}
		return
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m, err := jsonrpc.Parse(text)
	ctx := f.stop
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case !m.IsRequest():
		f.peer.Handle(ctx, text, func([]byte) {})
		w.WriteHeader(http.StatusAccepted)
		return
	case m.Method == "initialize":
		f.mu.Lock()
		id := fmt.Sprint("s", len(f.sessions)+1)
		f.sessions[id] = true
		f.mu.Unlock()
		w.Header().Set("Mcp-Session-Id", id)
	case m.Method == "subscriptions/listen":
		ctx = r.Context()
	}
	w.Header().Set("Content-Type", "text/event-stream")
	var mu sync.Mutex
	f.peer.Handle(ctx, text, func(text []byte) {
		mu.Lock()
		defer mu.Unlock()
		for line := range strings.SplitSeq(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n") {
			fmt.Fprintf(w, "data: %s\n", line)
		}
		fmt.Fprint(w, "\n")
		w.(http.Flusher).Flush()
	})
}

func block(url string) string { return fmt.Sprintf(`{"url":%q}`, url) }

// TestAcceptance runs the plugin as a process, in both eras of the protocol.
func TestAcceptance(t *testing.T) {
	for name, era := range map[string]plugintest.Era{
		"sessions":  plugintest.LegacyOnly,
		"stateless": plugintest.BothEras,
	} {
		t.Run(name, func(t *testing.T) {
			plugintest.Run(t, plugintest.Suite{
				Binary: os.Args[0],
				Env:    []string{envPlugin + "=1"},
				Config: func(t *testing.T) string { return block(newFront(t, era).URL) },
				Invalid: map[string]string{
					"url":              `{"url":"example.com/mcp"}`,
					"headers":          `{"url":"https://example.com","headers":{"Authorization":"Bearer "}}`,
					"client_cert_file": `{"url":"https://example.com","client_cert_file":"/no/such/file"}`,
				},
				Unreachable: block("http://127.0.0.1:1"),
			})
		})
	}
}

// TestSeveralServers: one process holds the sessions of several servers, and
// the loss of one is not the others'.
func TestSeveralServers(t *testing.T) {
	p := plugintest.Start(t, os.Args[0], envPlugin+"=1")
	a, b := newFront(t, plugintest.LegacyOnly), newFront(t, plugintest.LegacyOnly)
	one := p.Open(t, &transportpb.OpenSession{Config: []byte(block(a.URL))})
	two := p.Open(t, &transportpb.OpenSession{Config: []byte(block(b.URL))})
	if one.Init == nil || two.Init == nil {
		t.Fatal("no sessions")
	}
	a.mu.Lock()
	clear(a.sessions)
	a.mu.Unlock()
	e := one.Tool("echo", `{"value":1}`).GetTransportError()
	if e.GetReason() != reasonLost || e.GetDelivered() != deliveredNo {
		t.Errorf("the call on the lost session: %v", e)
	}
	if end := one.AwaitEnd(); end.GetClass() != classLost || !end.GetRetryable() {
		t.Errorf("the lost session's end: %v", end)
	}
	if r := two.Tool("echo", `{"value":1}`); r.GetResult() == nil {
		t.Errorf("the other server: %v", r)
	}
	again := p.Open(t, &transportpb.OpenSession{Config: []byte(block(a.URL))})
	if r := again.Tool("echo", `{"value":1}`); r.GetResult() == nil {
		t.Errorf("the new session: %v", r)
	}
}
