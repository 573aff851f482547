package launcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-host/hermes-host/host/session"
)

func TestSession(t *testing.T) {
	w := newWorld(t, fakeCommand(""))
	h := &ear{note: make(chan string, 200)}
	s, err := w.dial(t.Context(), script{}, h)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(s.Info().Result); got != `{"big":9007199254740993}` {
		t.Errorf("info.Result = %s", got)
	}
	if plugin, _ := w.pids(s); s.Info().Plugin != plugin {
		t.Errorf("the plugin's process is %d, not %d", plugin, s.Info().Plugin)
	}
	if got := h.all(); !slices.Equal(got, []string{"warn: hello"}) {
		t.Errorf("heard %q before the beginning", got)
	}

	var id uint64
	r, err := s.Call(t.Context(), session.Request{Method: "echo", Params: []byte(`{"n": 9007199254740993}`), Started: func(n uint64) { id = n }})
	if err != nil || string(r.Result) != `{"n": 9007199254740993}` {
		t.Errorf("echo: %s, %v", r.Result, err)
	}
	if id != 2 {
		t.Errorf("the second id is %d", id)
	}

	r, err = s.Call(t.Context(), session.Request{Method: "error"})
	if err != nil || r.Error == nil || r.Error.Code != -32003 || string(r.Error.Data) != `{"a":1}` {
		t.Errorf("error: %+v, %v", r.Error, err)
	}

	_, err = s.Call(t.Context(), session.Request{Method: "fail"})
	if f, ok := errors.AsType[*session.Failure](err); !ok || f.Reason != session.HTTPStatus || !f.Undelivered || f.Message != "502" {
		t.Errorf("fail: %v", err)
	}

	_, err = s.Call(t.Context(), session.Request{Method: "echo", Params: make([]byte, 64<<20+1)})
	if f, ok := errors.AsType[*session.Failure](err); !ok || f.Reason != session.Oversize || !f.Undelivered {
		t.Errorf("oversize: %v", err)
	}

	if err := s.Notify("hi", []byte(`{"a":1}`)); err != nil {
		t.Error(err)
	}
	if got := <-h.note; got != `echo/hi {"a":1}` {
		t.Errorf("notification came back as %q", got)
	}

	w.closeWithin(s, 5*time.Second)
	if end := s.End(); end == nil || end.Class != session.Closed {
		t.Errorf("end after Close: %v", end)
	}
	if _, err = s.Call(t.Context(), session.Request{Method: "echo"}); err == nil {
		t.Error("a call after the end succeeded")
	} else if f, ok := errors.AsType[*session.Failure](err); !ok || !f.Undelivered {
		t.Errorf("call after the end: %v", err)
	}
	if err := s.Notify("hi", nil); err == nil {
		t.Error("a notification after the end succeeded")
	}
}

func TestLargeMessagesCross(t *testing.T) {
	w := newWorld(t, fakeCommand(""))
	s := w.connect(script{})
	large := []byte(`"` + strings.Repeat("x", 20<<20) + `"`)
	r, err := s.Call(t.Context(), session.Request{Method: "echo", Params: large})
	if err != nil || string(r.Result) != string(large) {
		t.Fatalf("got %d bytes, %v", len(r.Result), err)
	}
	w.closeWithin(s, 5*time.Second)
}

func TestWhatCameBeforeAnAnswerIsHandledBefore(t *testing.T) {
	w := newWorld(t, fakeCommand(""))
	h := &ear{}
	s, err := w.dial(t.Context(), script{}, h)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 20 {
		if _, err := s.Call(t.Context(), session.Request{Method: "many"}); err != nil {
			t.Fatal(err)
		}
		if n := len(h.all()); n != 1+100*(round+1) {
			t.Fatalf("%d lines heard after %d answers", n, round+1)
		}
	}
	w.closeWithin(s, 5*time.Second)
}

// TestPatience: the plugin is told when the host gives up on its session, and
// nothing where nobody says so.
func TestPatience(t *testing.T) {
	w := newWorld(t, fakeCommand(""))
	for _, limit := range []time.Duration{0, 20 * time.Second} {
		ctx, cancel := t.Context(), func() {}
		if limit > 0 {
			ctx, cancel = context.WithTimeout(ctx, limit)
		}
		s, err := w.dial(ctx, script{}, &ear{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Call(ctx, session.Request{Method: "patience"})
		ms, bad := strconv.ParseInt(string(r.Result), 10, 64)
		if told := time.Duration(ms) * time.Millisecond; err != nil || bad != nil || told > limit || told < limit/2 {
			t.Errorf("told %v of %v; %v", told, limit, err)
		}
		cancel()
		w.closeWithin(s, 5*time.Second)
	}
}

func TestCancelReachesThePlugin(t *testing.T) {
	w := newWorld(t, fakeCommand(""))
	h := &ear{note: make(chan string, 10)}
	s, err := w.dial(t.Context(), script{}, h)
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("the client changed its mind")
	ctx, cancel := context.WithCancelCause(t.Context())
	called := make(chan error)
	go func() {
		_, err := s.Call(ctx, session.Request{Method: "silent"})
		called <- err
	}()
	// Wait until the sender has it, by calls that go the same way.
	sent := func() bool {
		s.(*stream).mu.Lock()
		defer s.(*stream).mu.Unlock()
		for _, c := range s.(*stream).calls {
			return c.sent.Load() == claimed
		}
		return false
	}
	for !sent() {
		if err := s.Healthy(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	cancel(cause)
	if err := <-called; !errors.Is(err, cause) {
		t.Errorf("the cancelled call returned %v", err)
	}
	if got := <-h.note; !strings.HasPrefix(got, "cancelled ") {
		t.Errorf("the plugin heard %q", got)
	}
	w.closeWithin(s, 5*time.Second)
}

func TestServerRequestIsAnswered(t *testing.T) {
	w := newWorld(t, fakeCommand(""))
	h := &ear{}
	var answering sync.WaitGroup
	ready := make(chan session.Session, 1)
	h.onAsk = func(r session.ServerRequest) {
		answering.Go(func() {
			s := <-ready
			if r.Related != 1 || r.Method != "roots/list" {
				t.Errorf("got %+v", r)
			}
			if err := s.Answer(r.ID, session.Reply{Result: []byte(`{"roots":[]}`)}); err != nil {
				t.Error(err)
			}
		})
	}
	s, err := w.dial(t.Context(), script{}, h)
	if err != nil {
		t.Fatal(err)
	}
	ready <- s
	r, err := s.Call(t.Context(), session.Request{Method: "ask"})
	if err != nil || string(r.Result) != `{"id":"q1","result":{"roots":[]}}` {
		t.Errorf("ask: %s, %v", r.Result, err)
	}
	answering.Wait()
	w.closeWithin(s, 5*time.Second)
}

func TestEndOfSession(t *testing.T) {
	for _, c := range []struct {
		method string
		class  session.Class
		reason session.Reason
		words  []string
	}{
		{"lose", session.Lost, session.SessionLost, []string{"unknown session"}},
		{"break", session.Gone, session.Connection, []string{"did not say why"}},
		{"exit", session.Gone, session.Connection, []string{`plugin "fake" ended`, "exit status 3"}},
		{"panic", session.Gone, session.Connection, []string{"exit status 2", "panic: boom"}},
	} {
		t.Run(c.method, func(t *testing.T) {
			w := newWorld(t, fakeCommand(""))
			s := w.connect(script{})
			_, err := s.Call(t.Context(), session.Request{Method: c.method})
			f, ok := errors.AsType[*session.Failure](err)
			if !ok || f.Reason != c.reason || f.Undelivered {
				t.Errorf("the call returned %v", err)
			}
			wantEnd(t, ended(t, s, time.Second), c.class, true, c.words...)
			w.closeWithin(s, 5*time.Second)
		})
	}
}

func TestConnectFails(t *testing.T) {
	t.Run("a session end", func(t *testing.T) {
		w := newWorld(t, fakeCommand(""))
		_, err := w.dial(t.Context(), script{Init: "end"}, &ear{})
		wantEnd(t, err, session.ConfigFault, false, "no such target")
		end, _ := errors.AsType[*session.End](err)
		if !slices.Equal(end.Path, []any{"target", 2}) {
			t.Errorf("path = %v", end.Path)
		}
	})
	t.Run("no answer in time", func(t *testing.T) {
		w := newWorld(t, fakeCommand(""))
		ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, errors.New("half a moment is over"))
		defer cancel()
		_, err := w.dial(ctx, script{Init: "never", Child: true}, &ear{})
		wantEnd(t, err, session.Gone, true, "half a moment is over")
		if left := w.plugins(); left != 0 {
			t.Errorf("%d processes left", left)
		}
	})
}

func TestHealthy(t *testing.T) {
	for _, c := range []struct {
		script script
		ok     bool
	}{
		{script{}, true},
		{script{Ping: "ignore"}, true}, // tools/list is answered, with an error
		{script{Version: stateless}, true},
		{script{Version: stateless, Ping: "deaf"}, false},
	} {
		t.Run(fmt.Sprintf("%+v", c.script), func(t *testing.T) {
			w := newWorld(t, fakeCommand(""))
			s := w.connect(c.script)
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			if err := s.Healthy(ctx); (err == nil) != c.ok {
				t.Error(err)
			}
			w.closeWithin(s, 5*time.Second)
		})
	}
}

// plugins counts the plugin processes that there are.
func (w *world) plugins() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.live)
}
