package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// slowWriter takes what a pump writes when it is told to.
type slowWriter struct {
	take chan struct{} // one write each
	got  strings.Builder
	fail error
}

func (s *slowWriter) write(b []byte) error {
	if s.take != nil {
		<-s.take
	}
	if s.fail != nil {
		return s.fail
	}
	s.got.Write(b)
	return nil
}

func note(method string, n int) *jsonrpc.Message {
	return &jsonrpc.Message{Method: method, Params: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}
}

func TestEventsAreOneLine(t *testing.T) {
	m := jsonrpc.Message{Method: "a", Params: json.RawMessage("{\n\r\n\"x\": 1\r}")}
	got := string(appendEvent(nil, "k", 3, &m))
	if want := "event: message\nid: k_3\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":{   \"x\": 1 }}\n\n"; got != want {
		t.Fatalf("%q", got)
	}
	for id, ok := range map[string]bool{"k_3": true, "a_b_3": true, "_3": false, "k_": false, "k_-1": false, "k": false, "": false} {
		if _, _, got := parseEventID(id); got != ok {
			t.Errorf("parseEventID(%q) = %v", id, got)
		}
	}
}

func TestSlowClientLosesProgressFirst(t *testing.T) {
	var cause error
	s := &stream{cancel: func(err error) { cause = err }}
	for i := range maxQueued / 2 {
		s.add(note("notifications/progress", i))
		s.add(note("notifications/message", i))
	}
	for i := range maxQueued / 2 {
		if !s.add(note("notifications/message", 10000+i)) {
			t.Fatalf("message %d was refused while progress waited", i)
		}
	}
	if s.add(note("notifications/message", 1)) || !errors.Is(cause, errOverflow) {
		t.Fatalf("no overflow: %v", cause)
	}
	if err := s.pump(t.Context(), &slowWriter{}, nil, -1, 0); !errors.Is(err, errOverflow) {
		t.Fatalf("a stream with a hole is still written: %v", err)
	}
	// A session's own stream goes on and loses the oldest.
	s = &stream{lossy: true}
	for i := range maxQueued + 10 {
		if !s.add(note("notifications/message", i)) {
			t.Fatalf("message %d was refused", i)
		}
	}
	s.close()
	w := &slowWriter{}
	if err := s.pump(t.Context(), w, nil, -1, 0); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(w.got.String(), `{"n":9}`) || !strings.Contains(w.got.String(), `{"n":10}`) {
		t.Fatal("not the oldest were lost")
	}
}

// A session whose client has no stream open keeps little of what nobody reads.
func TestUnreadStreamKeepsLittle(t *testing.T) {
	s := &stream{key: ownStream, lossy: true}
	m := &jsonrpc.Message{Method: "notifications/message", Params: json.RawMessage(`"` + strings.Repeat("x", 1000) + `"`)}
	for range 1000 {
		s.add(m)
	}
	if n := s.size(); n > maxUnreadBytes || n < maxUnreadBytes/2 {
		t.Errorf("%d bytes are kept", n)
	}
}

func TestAnswersAreNeverRefused(t *testing.T) {
	s := &stream{}
	for i := range maxQueued {
		s.add(note("notifications/message", i))
	}
	big := &jsonrpc.Message{ID: json.RawMessage("1"), Result: json.RawMessage(`"` + strings.Repeat("x", maxQueuedBytes) + `"`)}
	if !s.add(big) {
		t.Fatal("the answer was refused")
	}
}

func TestSayingItTwice(t *testing.T) {
	s := &stream{key: "s"}
	for range 3 {
		s.add(note("notifications/tools/list_changed", 1))
		s.add(note("notifications/resources/updated", 1))
		s.add(note("notifications/resources/updated", 2))
		s.add(note("notifications/message", 1))
	}
	if n := len(s.events); n != 6 {
		t.Fatalf("%d events wait", n)
	}
}

// TestPumpsTakeTurns: a failed or replaced pump loses nothing for the next.
func TestPumpsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stream{key: "s", replay: 1 << 20}
		s.add(note("a", 1))
		broken := errors.New("broken")
		if err := s.pump(t.Context(), &slowWriter{fail: broken}, nil, -1, 0); err != broken {
			t.Fatalf("%v", err)
		}
		stuck := &slowWriter{take: make(chan struct{})}
		ended := make(chan error, 1)
		go func() { ended <- s.pump(t.Context(), stuck, nil, -1, 0) }()
		synctest.Wait()
		w := &slowWriter{}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- s.pump(ctx, w, nil, -1, 0) }()
		synctest.Wait()
		s.add(note("a", 2))
		synctest.Wait()
		if got := w.got.String(); strings.Count(got, "event:") != 2 || !strings.Contains(got, "id: s_1\n") || !strings.Contains(got, "id: s_2\n") {
			t.Fatalf("%q", got)
		}
		close(stuck.take)
		if err := <-ended; err != errReplaced {
			t.Fatalf("%v", err)
		}
		cancel()
		<-ended
		if s.position() != 2 {
			t.Fatalf("position %d", s.position())
		}
	})
}

func TestReplayIsBounded(t *testing.T) {
	s := &stream{key: "s", replay: 1000}
	for i := range 100 {
		s.add(note("notifications/message", i))
	}
	s.close()
	w := &slowWriter{}
	if err := s.pump(t.Context(), w, nil, -1, 0); err != nil {
		t.Fatal(err)
	}
	if s.size() > 1000 {
		t.Fatalf("%d bytes are kept", s.size())
	}
	again := &slowWriter{}
	if err := s.pump(t.Context(), again, nil, 1, 0); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(again.got.String(), "event:"); n == 0 || n > 20 || !strings.HasSuffix(w.got.String(), again.got.String()) {
		t.Fatalf("%d events replayed", n)
	}
}
