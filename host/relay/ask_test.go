package relay

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hermes-host/hermes-host/host/session"
)

func asked(id, method string, related uint64) session.ServerRequest {
	return session.ServerRequest{ID: json.RawMessage(id), Method: method, Params: json.RawMessage(`{"message":"` + id + `"}`), Related: related}
}

// A question is answered while the reader goes on, and a second
// one while the first is open goes to the same client.
func TestQuestionsOfACall(t *testing.T) {
	s := newServer("a", "x")
	w := newWorld(t, s)
	h := w.r.Handler("a")
	second := make(chan struct{})
	c := &client{id: "c", caps: `{"elicitation":{},"sampling":{}}`}
	c.ask = func(ctx context.Context, method string, params json.RawMessage) (session.Reply, error) {
		if strings.Contains(string(params), "1") {
			<-second // the first is answered after the second
		} else {
			close(second)
		}
		return session.Reply{Result: json.RawMessage(`{"to":"` + method + `"}`)}, nil
	}
	s.serve = func(ctx context.Context, req session.Request) (session.Reply, error) {
		h.Request(asked("1", "elicitation/create", s.next.Load()))
		h.Request(asked(`"two"`, "sampling/createMessage", 0))
		<-s.answer
		<-s.answer
		return session.Reply{Result: json.RawMessage(`{"done":1}`)}, nil
	}
	got := w.endpoint("").Handle(t.Context(), c.call("tools/call", `{"name":"a__x"}`))
	if text(got) != `{"done":1}` {
		t.Fatalf("got %s", text(got))
	}
	if a, b := text(s.answered("1")), text(s.answered(`"two"`)); a != `{"to":"elicitation/create"}` || b != `{"to":"sampling/createMessage"}` {
		t.Errorf("answers %s and %s", a, b)
	}
}

func TestQuestionsThatAreRefused(t *testing.T) {
	able, poor := `{"elicitation":{}}`, `{}`
	for _, tt := range []struct {
		name    string
		method  string
		callers []string // capabilities of the clients in a call
		related int      // the caller on whose stream it comes, from 1; 0 is unknown
		want    string
	}{
		{"roots", "roots/list", []string{able}, 1, `-32601 roots/list is not answered`},
		{"nobody calls", "elicitation/create", nil, 0, `set session = "client"`},
		{"two clients call", "elicitation/create", []string{able, able}, 0, `set session = "client"`},
		{"two clients call, one is able", "elicitation/create", []string{able, poor}, 0, `set session = "client"`},
		{"two call, but it is known who", "elicitation/create", []string{poor, able}, 2, `{"ok":1}`},
		{"one calls and is not able", "elicitation/create", []string{poor}, 0, `-32601 elicitation/create can't be passed on: the client that is calling has not declared elicitation`},
		{"one calls and is not able to sample", "sampling/createMessage", []string{able}, 1, `not declared sampling`},
		{"a method of the future", "future/ask", []string{poor}, 0, `{"ok":1}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer("a", "x")
				w := newWorld(t, s)
				release := make(chan struct{})
				s.serve = func(context.Context, session.Request) (session.Reply, error) {
					<-release
					return session.Reply{}, nil
				}
				ended := make(chan struct{}, len(tt.callers))
				for i, caps := range tt.callers {
					c := &client{id: strconv.Itoa(i), caps: caps}
					c.ask = func(context.Context, string, json.RawMessage) (session.Reply, error) {
						if tt.related != 0 && tt.related != i+1 {
							t.Errorf("client %d was asked", i+1)
						}
						return session.Reply{Result: json.RawMessage(`{"ok":1}`)}, nil
					}
					go func() {
						w.endpoint("").Handle(t.Context(), c.call("tools/call", `{"name":"a__x"}`))
						ended <- struct{}{}
					}()
					synctest.Wait() // ids in order
				}
				w.r.Handler("a").Request(asked("7", tt.method, uint64(tt.related)))
				<-s.answer
				if got := text(s.answered("7")); !strings.Contains(got, tt.want) {
					t.Errorf("answer %s, want %s", got, tt.want)
				}
				close(release)
				for range tt.callers {
					<-ended
				}
				w.r.Close()
			})
		})
	}
}

// A question ends with its call, with the server's own withdrawal, and with the
// relay.
func TestQuestionsEnd(t *testing.T) {
	for _, by := range []string{"call", "server", "relay"} {
		t.Run(by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer("a", "x")
				w := newWorld(t, s)
				h := w.r.Handler("a")
				release := make(chan struct{})
				s.serve = func(ctx context.Context, _ session.Request) (session.Reply, error) {
					h.Request(asked("1", "elicitation/create", 0))
					<-release
					return session.Reply{}, nil
				}
				c := &client{id: "c", caps: `{"elicitation":{}}`}
				gone := make(chan struct{})
				c.ask = func(ctx context.Context, _ string, _ json.RawMessage) (session.Reply, error) {
					<-ctx.Done()
					close(gone)
					return session.Reply{}, ctx.Err()
				}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					w.endpoint("").Handle(t.Context(), c.call("tools/call", `{"name":"a__x"}`))
				}()
				synctest.Wait()
				switch by {
				case "call":
					close(release)
					<-ended
					<-gone
					<-s.answer
					if got := text(s.answered("1")); !strings.Contains(got, "has ended") {
						t.Errorf("answer %s", got)
					}
				case "server":
					h.Notification(note("notifications/cancelled", `{"requestId":2}`, 0))
					synctest.Wait()
					select {
					case <-gone:
						t.Error("another question's withdrawal ended it")
					default:
					}
					h.Notification(note("notifications/cancelled", `{"requestId":1}`, 0))
					<-gone
					close(release)
					<-ended
					synctest.Wait()
					if len(s.answer) != 0 {
						t.Errorf("a withdrawn question was answered: %s", text(s.answered("1")))
					}
				case "relay":
					w.r.Close()
					<-gone
					close(release)
					<-ended
				}
				w.r.Close()
				if l := w.r.link("a", nil); len(l.asking) != 0 {
					t.Errorf("%d questions left", len(l.asking))
				}
			})
		})
	}
}

func TestQuestionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer("a", "x")
		w := newWorld(t, s)
		h := w.r.Handler("a")
		c := &client{id: "c", caps: `{"elicitation":{}}`}
		c.ask = func(ctx context.Context, _ string, _ json.RawMessage) (session.Reply, error) {
			<-ctx.Done()
			return session.Reply{}, errors.New("gone")
		}
		s.serve = func(context.Context, session.Request) (session.Reply, error) {
			for i := range maxAsking + 1 {
				h.Request(asked(strconv.Itoa(i), "elicitation/create", 0))
			}
			<-s.answer
			return session.Reply{}, nil
		}
		w.endpoint("").Handle(t.Context(), c.call("tools/call", `{"name":"a__x"}`))
		if got := text(s.answered(strconv.Itoa(maxAsking))); !strings.Contains(got, "256 questions open") {
			t.Errorf("answer %s", got)
		}
		w.r.Close()
	})
}

// A call that waits for a session can't have caused a question.
func TestWaitingCallsDontCount(t *testing.T) {
	s := newServer("a", "x")
	w := newWorld(t, s)
	waiting := &call{link: w.r.link("a", nil)}
	waiting.front.Store(&front{client: &client{id: "waits"}})
	waiting.enter(&w.r.tokens, false)
	defer waiting.leave()
	c := &client{id: "c", caps: `{"elicitation":{}}`}
	c.ask = func(context.Context, string, json.RawMessage) (session.Reply, error) {
		return session.Reply{Result: json.RawMessage(`{"ok":1}`)}, nil
	}
	s.serve = func(context.Context, session.Request) (session.Reply, error) {
		w.r.Handler("a").Request(asked("1", "elicitation/create", 0))
		<-s.answer
		return session.Reply{}, nil
	}
	w.endpoint("").Handle(t.Context(), c.call("tools/call", `{"name":"a__x"}`))
	if got := text(s.answered("1")); got != `{"ok":1}` {
		t.Errorf("answer %s", got)
	}
}

// A request that no input_required result may answer can't be the occasion to
// ask a client of 2026-07-28.
func TestClientsThatCannotBeAsked(t *testing.T) {
	s := full("a")
	w := newWorld(t, s)
	s.serve = func(context.Context, session.Request) (session.Reply, error) {
		w.r.Handler("a").Request(asked("1", "elicitation/create", 0))
		<-s.answer
		return session.Reply{}, nil
	}
	c := &client{id: "c", version: "2026-07-28", caps: `{"elicitation":{}}`}
	w.endpoint("").Handle(t.Context(), c.call("completion/complete", `{"ref":{"type":"ref/prompt","name":"a__p"}}`))
	if got := s.answered("1"); got.Error == nil || got.Error.Code != -32601 {
		t.Errorf("answer %s", text(got))
	}
}
