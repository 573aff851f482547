package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// stdioFront is a client over stdio that speaks raw lines.
type stdioFront struct {
	*fake
	t      *testing.T
	g      *Gateway
	in     io.WriteCloser
	out    *bufio.Reader
	served chan error
}

func newStdio(t *testing.T, change func(*Config)) *stdioFront {
	f := newFront(t, change)
	r, in := io.Pipe()
	out, w := io.Pipe()
	s := &stdioFront{fake: f.fake, t: t, g: f.g, in: in, out: bufio.NewReader(out), served: make(chan error, 1)}
	go func() {
		s.served <- f.g.ServeStdio(t.Context(), r, w, f.fake)
		_ = w.Close()
	}()
	t.Cleanup(func() {
		_ = in.Close()
		_ = out.Close()
	})
	return s
}

func (s *stdioFront) send(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stdioFront) message() jsonrpc.Message {
	s.t.Helper()
	line, err := s.out.ReadString('\n')
	if err != nil {
		s.t.Fatal(err)
	}
	m, err := jsonrpc.Parse([]byte(line))
	if err != nil {
		s.t.Fatalf("%q: %v", line, err)
	}
	return m
}

func (s *stdioFront) wants(id string, code int64) {
	s.t.Helper()
	m := s.message()
	got := int64(0)
	if m.Error != nil {
		got = m.Error.Code
	}
	if string(m.ID) != id || got != code {
		s.t.Fatalf("got id %s, code %d (%+v); want %s, %d", m.ID, got, m, id, code)
	}
}

const stdioInit = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func TestStdio(t *testing.T) {
	s := newStdio(t, func(c *Config) { c.MaxRequestBytes = 2000 })
	s.send(toolCall("1", "echo"))
	s.wants("1", -32600) // before initialize
	s.send(`{"jsonrpc":"2.0","id":2,"method":"server/discover"}`)
	s.wants("2", -32601) // not of that era without _meta
	s.send(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	s.wants("3", 0)
	s.send(stdioInit)
	s.wants("0", 0)
	s.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	s.send(`nonsense`)
	s.wants("", -32700)
	s.send(``)
	s.send(`{"jsonrpc":"2.0","id":4,"method":"x` + strings.Repeat("x", 5000) + `"}`)
	s.wants("", -32600) // too long; the rest goes on
	s.send(`[` + toolCall("1", "echo") + `]`)
	s.wants("", -32600) // no batches in this version
	s.send(toolCall(`"a"`, "panic"))
	s.wants(`"a"`, -32603)
	s.send(stdioInit)
	s.wants("0", -32600) // twice
	s.send(modernMessage("5", "server/discover", testMeta))
	s.wants("5", 0) // both eras on one pipe
	s.send(modernMessage("6", "ping", testMeta))
	s.wants("6", -32601)
	s.send(modernMessage("7", "tools/list", strings.Replace(testMeta, "2026-07-28", "2027-01-01", 1)))
	s.wants("7", codeUnsupportedVersion)

	// Two calls side by side, one asks the client, one is cancelled.
	s.send(toolCall("8", "wait"))
	<-s.entered
	s.send(toolCall("8", "echo"))
	s.wants("8", -32600)
	s.send(toolCall("9", "ask"))
	q := s.message()
	if q.Method != "elicitation/create" {
		t.Fatalf("%+v", q)
	}
	s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8}}`)
	if cause := <-s.ended; cause != errCancelledCall {
		t.Fatalf("cause %v", cause)
	}
	s.send(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"accept"}}`)
	s.wants("9", 0) // and no answer to 8

	if err := s.in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-s.served; err != nil {
		t.Fatalf("ServeStdio = %v", err)
	}
	if n := len(s.clients()); n != 0 {
		t.Fatalf("%d clients never left", n)
	}
}

// TestStdioScript is what a shell pipe does: write, close, read.
func TestStdioScript(t *testing.T) {
	f := newFront(t, nil)
	in := strings.NewReader(stdioInit + "\n" + toolCall("1", "progress") + "\n" + toolCall("2", "echo")) // no line end
	var out strings.Builder
	if err := f.g.ServeStdio(t.Context(), in, &out, f.fake); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"id":0,"result"`, `"id":1,"result"`, `"id":2,"result"`, `"progress":3`} {
		if !strings.Contains(out.String(), want) {
			t.Fatalf("no %s in\n%s", want, out.String())
		}
	}
}

func TestStdioBatch(t *testing.T) {
	s := newStdio(t, nil)
	s.send(strings.Replace(stdioInit, "2025-11-25", "2025-03-26", 1))
	s.wants("0", 0)
	s.send(`[{"jsonrpc":"2.0","id":1,"method":"ping"},7,{"jsonrpc":"2.0","method":"x"}]`)
	s.wants("1", 0)
	s.wants("", -32600)
}

func TestStdioListen(t *testing.T) {
	s := newStdio(t, nil)
	s.send(listenBody("1", `{"toolsListChanged":true}`))
	if m := s.message(); m.Method != "notifications/subscriptions/acknowledged" {
		t.Fatalf("%+v", m)
	}
	s.clients()[0].Notify("notifications/tools/list_changed", nil)
	m := s.message()
	equalJSON(t, string(m.Params), `{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}`)
	s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	s.send(modernMessage("2", "server/discover", testMeta))
	s.wants("2", 0)

	s.send(listenBody("3", `{"toolsListChanged":true}`))
	if m := s.message(); m.Method != "notifications/subscriptions/acknowledged" {
		t.Fatalf("%+v", m)
	}
	go func() { _ = s.g.Shutdown(context.Background()) }()
	m = s.message()
	if string(m.ID) != "3" || rawjson.Text(m.Result, "resultType") != "complete" {
		t.Fatalf("%+v", m)
	}
	if err := <-s.served; !errors.Is(err, errShutdown) {
		t.Fatalf("ServeStdio = %v", err)
	}
}

func TestStdioInputEndsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Config{})
		f := newFake()
		r, in := io.Pipe()
		served := make(chan error, 1)
		go func() { served <- g.ServeStdio(t.Context(), r, io.Discard, f) }()
		start := time.Now()
		if _, err := io.WriteString(in, stdioInit+"\n"+toolCall("1", "wait")+"\n"); err != nil {
			t.Fatal(err)
		}
		<-f.entered
		_ = in.Close()
		if cause := <-f.ended; cause != errInputEnded || time.Since(start) != drain {
			t.Fatalf("cause %v after %v", cause, time.Since(start))
		}
		if err := <-served; err != nil {
			t.Fatal(err)
		}
	})
}

// TestStdioClientDies: nobody reads the output any more.
func TestStdioClientDies(t *testing.T) {
	f := newFront(t, nil)
	r, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- f.g.ServeStdio(t.Context(), r, w, f.fake) }()
	if _, err := io.WriteString(in, stdioInit+"\n"+toolCall("1", "wait")+"\n"); err != nil {
		t.Fatal(err)
	}
	<-f.entered
	_ = out.Close()
	if _, err := io.WriteString(in, `{"jsonrpc":"2.0","id":3,"method":"ping"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if cause := <-f.ended; !errors.Is(cause, os.ErrClosed) && !strings.Contains(cause.Error(), "writing to the client") {
		t.Fatalf("cause %v", cause)
	}
	if err := <-served; err == nil {
		t.Fatal("a broken pipe went unnoticed")
	}
	_ = in.Close()
	_ = w.Close()
}
