package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// modern is a new stateless client per request, as the gateway makes them.
func modern(n int, caps string) *client {
	return &client{id: fmt.Sprint("modern", n), version: "2026-07-28", caps: caps}
}

func (c *client) named(name string) *client {
	c.info = json.RawMessage(`{"name":"` + name + `"}`)
	return c
}

// quiz is a server that asks n questions, one after the other, and tells what
// it heard.
func quiz(w func() *world, s *upserver, n int, params string) {
	s.serve = func(ctx context.Context, _ session.Request) (session.Reply, error) {
		var heard []string
		for i := range n {
			id := fmt.Sprint(100 + i)
			w().r.Handler("a").Request(session.ServerRequest{ID: json.RawMessage(id), Method: "elicitation/create", Params: json.RawMessage(params)})
			select {
			case <-s.answer:
				heard = append(heard, text(s.answered(id)))
			case <-ctx.Done():
				return session.Reply{}, context.Cause(ctx)
			}
		}
		return session.Reply{Result: json.RawMessage(`{"heard":[` + strings.Join(heard, ",") + `]}`)}, nil
	}
}

// A client of 2026-07-28 is asked by results, for as many rounds as it takes,
// while the old server sees one call.
func TestQuestionsBecomeResults(t *testing.T) {
	s := newServer("a", "x")
	w := newWorld(t, s)
	quiz(func() *world { return w }, s, 2, `{"message":"name?","requestedSchema":{"big":9007199254740993}}`)
	e := w.endpoint("")
	const first = `{"name":"a__x","arguments":{"q":1},"_meta":{"io.modelcontextprotocol/clientInfo":{},"progressToken":"t1"}`
	got := e.Handle(t.Context(), modern(1, `{"elicitation":{}}`).call("tools/call", first+`}`))
	var states []string
	for round, answer := range []string{`{"action":"accept","content":{"n":1}}`, `{"action":"decline"}`} {
		key := fmt.Sprint(round + 1)
		want := `{"resultType":"input_required","inputRequests":{"` + key + `":{"method":"elicitation/create","params":{"message":"name?","requestedSchema":{"big":9007199254740993}}}},"requestState":"`
		if !strings.HasPrefix(text(got), want) {
			t.Fatalf("round %d: %s", round, text(got))
		}
		state := rawjson.Text(got.Result, "requestState")
		states = append(states, state)
		// Other members, in another order and spelling: the same request.
		retry := `{"requestState":"` + state + `","inputResponses":{"` + key + `":` + answer + `}, "arguments":{ "q" : 1 },"name":"a__x","_meta":{"progressToken":"t2"}}`
		c := modern(2+round, `{"elicitation":{}}`)
		got = e.Handle(t.Context(), c.call("tools/call", retry))
	}
	if want := `{"heard":[{"action":"accept","content":{"n":1}},{"action":"decline"}]}`; text(got) != want {
		t.Errorf("result %s, want %s", text(got), want)
	}
	if got := s.requests(); len(got) != 1 || got[0] != `tools/call {"name":"x","arguments":{"q":1},"_meta":{"progressToken":1}}` {
		t.Errorf("the server saw %q", got)
	}
	if states[0] == states[1] || len(states[0]) < 40 {
		t.Errorf("states %q", states)
	}
	for _, state := range append(states, "invented") {
		got := e.Handle(t.Context(), modern(9, `{"elicitation":{}}`).call("tools/call", `{"name":"a__x","arguments":{"q":1},"requestState":"`+state+`"}`))
		if got.Error == nil || got.Error.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("a state that is used up or invented: %s", text(got))
		}
	}
	if len(s.requests()) != 1 {
		t.Error("a refused retry has reached the server")
	}
}

// A retry must be the same request of the same client; another one is refused,
// and the right one still works.
func TestRetriesMustMatch(t *testing.T) {
	s := full("a")
	w := newWorld(t, s)
	quiz(func() *world { return w }, s, 1, `{}`)
	caps := `{"elicitation":{}}`
	got := w.endpoint("").Handle(t.Context(), modern(1, caps).named("c").call("tools/call", `{"name":"a__put","arguments":{"q":1}}`))
	state := `,"requestState":"` + rawjson.Text(got.Result, "requestState") + `"`
	for what, try := range map[string]func() session.Reply{
		"arguments": func() session.Reply {
			return w.endpoint("").Handle(t.Context(), modern(2, caps).named("c").call("tools/call", `{"name":"a__put","arguments":{"q":2}`+state+`}`))
		},
		"name": func() session.Reply {
			return w.endpoint("").Handle(t.Context(), modern(2, caps).named("c").call("tools/call", `{"name":"a__get_a","arguments":{"q":1}`+state+`}`))
		},
		"method": func() session.Reply {
			return w.endpoint("").Handle(t.Context(), modern(2, caps).named("c").call("prompts/get", `{"name":"a__p"`+state+`}`))
		},
		"endpoint": func() session.Reply {
			return w.endpoint("a").Handle(t.Context(), modern(2, caps).named("c").call("tools/call", `{"name":"put","arguments":{"q":1}`+state+`}`))
		},
		"client": func() session.Reply {
			return w.endpoint("").Handle(t.Context(), modern(2, caps).named("other").call("tools/call", `{"name":"a__put","arguments":{"q":1}`+state+`}`))
		},
		"answers": func() session.Reply {
			return w.endpoint("").Handle(t.Context(), modern(2, caps).named("c").call("tools/call", `{"name":"a__put","arguments":{"q":1},"inputResponses":[]`+state+`}`))
		},
		"answer": func() session.Reply {
			return w.endpoint("").Handle(t.Context(), modern(2, caps).named("c").call("tools/call", `{"name":"a__put","arguments":{"q":1},"inputResponses":{"1":"yes"}`+state+`}`))
		},
	} {
		if got := try(); got.Error == nil || got.Error.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("another %s: %s", what, text(got))
		}
	}
	// Without the answer the same is asked again, under a new state.
	again := w.endpoint("").Handle(t.Context(), modern(3, caps).named("c").call("tools/call", `{"name":"a__put","arguments":{"q":1}`+state+`}`))
	next := rawjson.Text(again.Result, "requestState")
	if next == "" || rawjson.Get(again.Result, "inputRequests", "1") == nil {
		t.Fatalf("asked again: %s", text(again))
	}
	got = w.endpoint("").Handle(t.Context(), modern(4, caps).named("c").call("tools/call",
		`{"name":"a__put","arguments":{"q":1},"inputResponses":{"1":{"action":"cancel"},"7":{}},"requestState":"`+next+`"}`))
	if text(got) != `{"heard":[{"action":"cancel"}]}` {
		t.Errorf("result %s", text(got))
	}
}

// What a client has not declared it is not asked; the server hears why.
func TestUndeclaredQuestionsAreRefused(t *testing.T) {
	for _, tt := range []struct{ caps, method, params, want string }{
		{`{}`, "elicitation/create", `{}`, "not declared elicitation"},
		{`{"elicitation":{}}`, "elicitation/create", `{"mode":"url"}`, "not declared elicitation.url"},
		{`{"elicitation":{"url":{}}}`, "elicitation/create", `{}`, "not declared elicitation.form"},
		{`{"elicitation":{}}`, "sampling/createMessage", `{}`, "not declared sampling"},
		{`{"sampling":{}}`, "sampling/createMessage", `{"tools":[]}`, "not declared sampling.tools"},
		{`{"roots":{}}`, "roots/list", `{}`, `session = "client"`},
	} {
		for _, version := range []string{"2025-11-25", "2026-07-28"} {
			s := newServer("a", "x")
			w := newWorld(t, s)
			s.serve = func(context.Context, session.Request) (session.Reply, error) {
				w.r.Handler("a").Request(session.ServerRequest{ID: json.RawMessage("1"), Method: tt.method, Params: json.RawMessage(tt.params)})
				<-s.answer
				return session.Reply{Result: json.RawMessage(`{"done":1}`)}, nil
			}
			c := &client{id: "c", version: version, caps: tt.caps}
			c.ask = func(context.Context, string, json.RawMessage) (session.Reply, error) {
				t.Errorf("%s was asked", tt.caps)
				return session.Reply{}, nil
			}
			if got := text(w.endpoint("").Handle(t.Context(), c.call("tools/call", `{"name":"a__x"}`))); got != `{"done":1}` {
				t.Errorf("%s: result %s", tt.caps, got)
			}
			if got := text(s.answered("1")); !strings.Contains(got, tt.want) {
				t.Errorf("%s %s: answer %s", tt.caps, tt.method, got)
			}
		}
	}
}

// The client that does not come back ends the call; so does one that goes while
// it waits; and the relay's end ends all.
func TestSuspendedCallsEnd(t *testing.T) {
	for _, by := range []string{"patience", "client", "relay"} {
		t.Run(by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer("a", "x")
				w := newWorld(t, s)
				quiz(func() *world { return w }, s, 2, `{}`)
				ended := make(chan error, 1)
				serve := s.serve
				s.serve = func(ctx context.Context, req session.Request) (session.Reply, error) {
					reply, err := serve(ctx, req)
					ended <- err
					return reply, err
				}
				e := w.endpoint("")
				got := e.Handle(t.Context(), modern(1, `{"elicitation":{}}`).call("tools/call", `{"name":"a__x"}`))
				state := rawjson.Text(got.Result, "requestState")
				switch by {
				case "patience":
					time.Sleep(patience - time.Second)
					synctest.Wait()
					if len(ended) != 0 {
						t.Error("ended early")
					}
					time.Sleep(2 * time.Second)
				case "client":
					// A retry that waits, since the question was withdrawn.
					w.r.Handler("a").Notification(note("notifications/cancelled", `{"requestId":100}`, 0))
					synctest.Wait()
					ctx, cancel := context.WithCancel(t.Context())
					done := make(chan session.Reply, 1)
					go func() {
						done <- e.Handle(ctx, modern(2, `{"elicitation":{}}`).call("tools/call", `{"name":"a__x","requestState":"`+state+`"}`))
					}()
					synctest.Wait()
					cancel()
					<-done
				case "relay":
					w.r.Close()
				}
				<-ended
				synctest.Wait()
				w.r.suspended.mu.Lock()
				if len(w.r.suspended.by) != 0 {
					t.Errorf("%d calls are kept", len(w.r.suspended.by))
				}
				w.r.suspended.mu.Unlock()
				if by == "patience" {
					got := e.Handle(t.Context(), modern(3, `{"elicitation":{}}`).call("tools/call", `{"name":"a__x","requestState":"`+state+`"}`))
					if got.Error == nil || got.Error.Code != jsonrpc.CodeInvalidParams {
						t.Errorf("after the end: %s", text(got))
					}
				}
				w.r.Close()
			})
		})
	}
}

// An answer that comes between two requests waits for the retry, and progress
// between them goes nowhere.
func TestResultsWaitForTheRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer("a", "x")
		w := newWorld(t, s)
		release := make(chan struct{})
		s.serve = func(_ context.Context, req session.Request) (session.Reply, error) {
			h := w.r.Handler("a")
			token := string(rawjson.Get(req.Params, "_meta", "progressToken"))
			h.Request(asked("1", "elicitation/create", 0))
			<-release
			h.Notification(note("notifications/progress", `{"progressToken":`+token+`,"progress":1}`, 0))
			h.Notification(note("notifications/cancelled", `{"requestId":1}`, 0))
			<-release
			h.Notification(note("notifications/progress", `{"progressToken":`+token+`,"progress":2}`, 0))
			return session.Reply{Result: json.RawMessage(`{"late":1}`)}, nil
		}
		e := w.endpoint("")
		c1 := modern(1, `{"elicitation":{}}`)
		got := e.Handle(t.Context(), c1.call("tools/call", `{"name":"a__x","_meta":{"progressToken":"one"}}`))
		release <- struct{}{}
		synctest.Wait()
		c2 := modern(2, `{"elicitation":{}}`)
		done := make(chan session.Reply)
		go func() {
			done <- e.Handle(t.Context(), c2.call("tools/call",
				`{"name":"a__x","_meta":{"progressToken":"two"},"requestState":"`+rawjson.Text(got.Result, "requestState")+`"}`))
		}()
		synctest.Wait()
		release <- struct{}{}
		if got := text(<-done); got != `{"late":1}` {
			t.Errorf("result %s", got)
		}
		if got := c1.streamed(); len(got) != 0 {
			t.Errorf("the first request heard %q", got)
		}
		if got := c2.streamed(); len(got) != 1 || got[0] != `notifications/progress {"progressToken":"two","progress":2}` {
			t.Errorf("the retry heard %q", got)
		}
		w.r.Close()
	})
}

// A person's time is not the server's: with a question open, the limit of a
// call does not strike it.
func TestPeoplesTimeIsNotTheServers(t *testing.T) {
	s := newServer("a", "x")
	w := newWorld(t, s)
	var excused []bool
	s.serve = func(context.Context, session.Request) (session.Reply, error) {
		opt := s.lastOptions()
		excused = append(excused, opt.Excused())
		w.r.Handler("a").Request(asked("1", "elicitation/create", 0))
		excused = append(excused, opt.Excused())
		<-s.answer
		excused = append(excused, opt.Excused())
		return session.Reply{}, nil
	}
	c := &client{id: "c", caps: `{"elicitation":{}}`}
	c.ask = func(context.Context, string, json.RawMessage) (session.Reply, error) {
		return session.Reply{Result: json.RawMessage(`{"action":"accept"}`)}, nil
	}
	w.endpoint("").Handle(t.Context(), c.call("tools/call", `{"name":"a__x"}`))
	if fmt.Sprint(excused) != "[false true false]" {
		t.Errorf("excused: %v", excused)
	}
}

func (s *upserver) lastOptions() supervisor.CallOptions {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opts[len(s.opts)-1]
}
