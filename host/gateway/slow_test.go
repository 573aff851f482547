package gateway

import (
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestSlowReaderBlocksNobody: a client that reads nothing of its stream must
// not keep the endpoint from speaking, to it or to anybody else.
func TestSlowReaderBlocksNobody(t *testing.T) {
	f := newFront(t, nil)
	h := f.initialize("2025-06-18")
	conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(f.url, "http://"), "/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: "+h[1]+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	c := f.clients()[0]
	params := json.RawMessage(`{"level":"info","data":"` + strings.Repeat("x", 64<<10) + `"}`)
	start := time.Now()
	for range 600 { // 38 MiB, more than any buffer between us
		c.Notify("notifications/message", params)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Fatalf("notifying took %v", took)
	}
	if res := f.post(toolCall("1", "echo"), h...); res.status != 200 {
		t.Fatalf("%+v", res)
	}
	f.g.sessions.mu.RLock()
	s := f.g.sessions.by[h[1]]
	f.g.sessions.mu.RUnlock()
	if n := s.own.size(); n > maxQueuedBytes+f.g.cfg.ReplayBytes {
		t.Fatalf("%d bytes wait for a client that does not read", n)
	}
}

func TestInFlightIsBounded(t *testing.T) {
	f := newFront(t, nil)
	h := f.initialize("2025-11-25")
	f.g.sessions.mu.RLock()
	s := f.g.sessions.by[h[1]]
	f.g.sessions.mu.RUnlock()
	x := &exchange{g: f.g, s: s}
	for i := range maxInFlight {
		c := x.newCall(s.ctx, json.RawMessage(`"`+strings.Repeat("i", i+1)+`"`))
		if e := s.begin(c); e != nil {
			t.Fatal(e)
		}
		defer s.finish(c)
	}
	if res := f.post(toolCall("1", "echo"), h...); res.status != 429 || res.message(t).Error == nil {
		t.Fatalf("%+v", res)
	}
}
