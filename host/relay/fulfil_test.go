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
	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// newer is a server of 2026-07-28 that answers a script, one result per
// sending; the last one stays.
func newer(name string, script ...string) *upserver {
	s := newServer(name, "x")
	s.info.ProtocolVersion = "2026-07-28"
	n := 0
	s.serve = func(context.Context, session.Request) (session.Reply, error) {
		result := script[min(n, len(script)-1)]
		n++
		return session.Reply{Result: json.RawMessage(result)}, nil
	}
	return s
}

// answering is a client of a session that answers everything.
func answering(caps string) *client {
	c := &client{id: "c", caps: caps, info: json.RawMessage(`{"name":"old"}`)}
	c.ask = func(_ context.Context, method string, params json.RawMessage) (session.Reply, error) {
		return session.Reply{Result: json.RawMessage(`{"to":"` + method + `","of":` + string(params) + `}`)}, nil
	}
	return c
}

// A client of an older session is asked what a server of 2026-07-28 wants to
// know, on the call's stream, and sees one call.
func TestInputRequiredBecomesQuestions(t *testing.T) {
	s := newer("a",
		`{"resultType":"input_required","inputRequests":{"n":{"method":"elicitation/create","params":{"big":9007199254740993}},"r":{"method":"roots/list","params":{}}},"requestState":"s1"}`,
		`{"resultType":"input_required","inputRequests":{"m":{"method":"sampling/createMessage","params":{}}}}`,
		`{"resultType":"complete","content":[]}`)
	w := newWorld(t, s)
	c := answering(`{"elicitation":{},"sampling":{},"roots":{}}`)
	got := w.endpoint("").Handle(t.Context(), c.call("tools/call", `{"name":"a__x","arguments":{"q":1},"_meta":{"mine":1}}`))
	if text(got) != `{"resultType":"complete","content":[]}` {
		t.Errorf("result %s", text(got))
	}
	base := `tools/call {"name":"x","arguments":{"q":1},"_meta":{"mine":1,"io.modelcontextprotocol/clientInfo":{"name":"old"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{},"roots":{}}}`
	want := []string{
		base + `}`,
		base + `,"inputResponses":{"n":{"to":"elicitation/create","of":{"big":9007199254740993}},"r":{"to":"roots/list","of":{}}},"requestState":"s1"}`,
		base + `,"inputResponses":{"m":{"to":"sampling/createMessage","of":{}}}}`,
	}
	sent := s.requests()
	if len(sent) != len(want) {
		t.Fatalf("the server saw %q", sent)
	}
	for i, one := range sent {
		if !equalParams(one, want[i]) {
			t.Errorf("sending %d: %s\nwant %s", i, one, want[i])
		}
	}
}

// equalParams compares "method params", whatever the order of members.
func equalParams(a, b string) bool {
	decode := func(s string) string {
		method, params, _ := strings.Cut(s, " ")
		var v map[string]any
		d := json.NewDecoder(strings.NewReader(params))
		d.UseNumber()
		if d.Decode(&v) != nil {
			return s
		}
		out, _ := json.Marshal(v)
		return method + string(out)
	}
	return decode(a) == decode(b)
}

// A server that is busy is asked again after a while, one that asks for ever or
// for what the client can't give is not.
func TestInputThatLeadsNowhere(t *testing.T) {
	ask := `{"resultType":"input_required","inputRequests":{"n":{"method":"elicitation/create","params":{}}},"requestState":"s"}`
	for _, tt := range []struct {
		what, caps string
		script     []string
		refuse     error
		want       string
		sent       int
		after      time.Duration
	}{
		{what: "busy", caps: `{}`, script: []string{`{"resultType":"input_required","requestState":"b"}`, `{"resultType":"input_required","inputRequests":{},"requestState":"b"}`, `{"content":[]}`}, want: `{"content":[]}`, sent: 3, after: 3 * time.Second},
		{what: "busy for long", caps: `{}`, script: []string{`{"resultType":"input_required","requestState":"b"}`}, want: "is busy", sent: 4, after: 7 * time.Second},
		{what: "for ever", caps: `{"elicitation":{}}`, script: []string{ask}, want: "still asks for input after 10 rounds", sent: 11},
		{what: "undeclared", caps: `{}`, script: []string{ask}, want: "not declared elicitation", sent: 1},
		{what: "refused", caps: `{"elicitation":{}}`, script: []string{ask}, refuse: jsonrpc.Errorf(-1, "user is away"), want: "user is away", sent: 1},
		{what: "gone", caps: `{"elicitation":{}}`, script: []string{ask}, refuse: context.Canceled, want: "the client gave none", sent: 1},
		{what: "nonsense", caps: `{"elicitation":{}}`, script: []string{`{"resultType":"input_required","inputRequests":7}`}, want: "can't read", sent: 1},
	} {
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newer("a", tt.script...)
				w := newWorld(t, s)
				c := answering(tt.caps)
				if tt.refuse != nil {
					c.ask = func(context.Context, string, json.RawMessage) (session.Reply, error) {
						if e, ok := tt.refuse.(*jsonrpc.Error); ok {
							return session.Reply{Error: e}, nil
						}
						return session.Reply{}, tt.refuse
					}
				}
				start := time.Now()
				got := w.endpoint("").Handle(t.Context(), c.call("tools/call", `{"name":"a__x"}`))
				if !strings.Contains(text(got), tt.want) || tt.want[0] != '{' && string(rawjson.Get(got.Result, "isError")) != "true" {
					t.Errorf("result %s, want %s", text(got), tt.want)
				}
				if n := len(s.requests()); n != tt.sent {
					t.Errorf("sent %d times, want %d", n, tt.sent)
				}
				if took := time.Since(start); took != tt.after {
					t.Errorf("took %v, want %v", took, tt.after)
				}
				w.r.Close()
			})
		})
	}
}

// Within one era, and across eras where nothing is in the way, results and
// params stay the bytes that they were.
func TestErasInParams(t *testing.T) {
	const meta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"n"},"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"info"`
	for _, tt := range []struct{ client, server, params, want string }{
		{"2026-07-28", "2026-07-28", `{"name":"x", "_meta":{` + meta + `}}`, `{"name":"x", "_meta":{` + meta + `}}`},
		{"2026-07-28", "2025-11-25", `{"name":"x","_meta":{` + meta + `}}`, `{"name":"x"}`},
		{"2026-07-28", "2025-11-25", `{"_meta":{` + meta + `,"progressToken":"p","mine":{"a": 1}},"name":"x"}`, `{"_meta":{"progressToken":1,"mine":{"a": 1}},"name":"x"}`},
		{"2026-07-28", "2025-11-25", `{"name":"x","inputResponses":{}}`, `{"name":"x"}`},
		{"2025-11-25", "2025-11-25", `{"name":"x","_meta":{"a":1}}`, `{"name":"x","_meta":{"a":1}}`},
		{"2025-11-25", "2026-07-28", `{"name":"x"}`, `{"name":"x","_meta":{"io.modelcontextprotocol/clientInfo":{"name":"n"},"io.modelcontextprotocol/clientCapabilities":{}}}`},
		{"2025-11-25", "2026-07-28", `{"_meta":{"progressToken":"p"},"name":"x"}`, `{"_meta":{"progressToken":1,"io.modelcontextprotocol/clientInfo":{"name":"n"},"io.modelcontextprotocol/clientCapabilities":{}},"name":"x"}`},
	} {
		s := newServer("a", "x")
		s.info.ProtocolVersion = tt.server
		w := newWorld(t, s)
		c := &client{id: "c", version: tt.client, info: json.RawMessage(`{"name":"n"}`), caps: `{}`}
		w.endpoint("a").Handle(t.Context(), c.call("tools/call", tt.params))
		if got := s.requests(); len(got) != 1 || got[0] != "tools/call "+tt.want {
			t.Errorf("%s to %s: %s\nthe server saw %q\nwant           %q", tt.client, tt.server, tt.params, got, tt.want)
		}
	}
}

// A call that comes while a server is on its way up for the first time is
// translated as the server turns out to need it.
func TestErasBeforeTheFirstSession(t *testing.T) {
	s := newServer("a", "x")
	s.down.Store(true)
	s.coming = func() { s.down.Store(false) }
	w := newWorld(t, s)
	c := &client{id: "c", version: "2026-07-28", caps: `{}`}
	w.endpoint("a").Handle(t.Context(), c.call("tools/call", `{"name":"x","inputResponses":{}}`))
	if got := s.requests(); len(got) != 1 || got[0] != `tools/call {"name":"x"}` {
		t.Errorf("the server saw %q", got)
	}
}

// A client's own session may be of another era than the shared one. What comes
// before it is up waits for it, and is translated as it needs.
func TestEraOfAClientsOwnSession(t *testing.T) {
	for _, tt := range []struct{ shared, own, method, params, want string }{
		{"2026-07-28", "2025-06-18", "tools/call", `{"name":"a__put"}`, "logging/setLevel {\"level\":\"debug\"}\ntools/call {\"name\":\"put\"}"},
		{"2026-07-28", "2025-06-18", "resources/subscribe", `{"uri":"a:1"}`, `resources/subscribe {"uri":"a:1"}`},
		{"2026-07-28", "2025-06-18", "resources/unsubscribe", `{"uri":"a:1"}`, `resources/unsubscribe {"uri":"a:1"}`},
		{"2026-07-28", "2025-06-18", "logging/setLevel", `{"level":"error"}`, `logging/setLevel {"level":"error"}`},
		{"2025-06-18", "2026-07-28", "tools/call", `{"name":"a__put"}`, `tools/call {"name":"put","_meta":{"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"debug"}}`},
		{"2025-06-18", "2026-07-28", "resources/subscribe", `{"uri":"a:1"}`, `subscriptions/listen {"notifications":{"resourceSubscriptions":["a:1"]}}`},
		{"2025-06-18", "2026-07-28", "resources/unsubscribe", `{"uri":"a:1"}`, ""},
		{"2025-06-18", "2026-07-28", "logging/setLevel", `{"level":"error"}`, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			shared, own := full("a"), full("a")
			shared.info.ProtocolVersion, own.info.ProtocolVersion = tt.shared, tt.own
			own.down.Store(true)
			own.coming = func() { own.down.Store(false) }
			w := newWorld(t, shared)
			r := New(Config{
				Catalog: w.cat, Private: func(string) bool { return true },
				Lookup: func(_ string, c Client) (Server, bool) {
					if c == nil {
						return shared, true
					}
					return own, true
				},
			})
			defer r.Close()
			c := &client{id: "c", version: "2025-06-18"}
			e, _ := r.Endpoint("a")
			if tt.method == "tools/call" {
				e, _ = r.Endpoint("")
			}
			e.Join(c)
			if tt.method == "tools/call" { // and what the client has asked for before
				e.Handle(t.Context(), c.call("logging/setLevel", `{"level":"debug"}`))
				synctest.Wait()
			}
			if reply := e.Handle(t.Context(), c.call(tt.method, tt.params)); reply.Error != nil {
				t.Errorf("%s of a session of %s: %v", tt.method, tt.own, reply.Error)
			}
			synctest.Wait()
			if got := strings.Join(own.requests(), "\n"); got != tt.want || len(shared.requests()) > 0 {
				t.Errorf("%s of a session of %s: the server saw %q, want %q", tt.method, tt.own, got, tt.want)
			}
		})
	}
}

// The log level that an older client has set goes with each request to a server
// of 2026-07-28, which knows no logging/setLevel.
func TestLevelsAcrossEras(t *testing.T) {
	s := newer("a", `{}`)
	w := newWorld(t, s)
	c := &client{id: "c", caps: `{}`}
	for _, endpoint := range []string{"a", ""} {
		e := w.endpoint(endpoint)
		e.Join(c)
		if got := text(e.Handle(t.Context(), c.call("logging/setLevel", `{"level":"warning"}`))); got != "{}" {
			t.Errorf("setLevel: %s", got)
		}
		e.Handle(t.Context(), c.call("prompts/future", fmt.Sprintf(`{"name":%q}`, map[string]string{"": "a__x", "a": "x"}[endpoint])))
		e.Leave(c)
	}
	for _, got := range s.requests() {
		if !strings.HasPrefix(got, "prompts/future ") || !strings.Contains(got, `"io.modelcontextprotocol/logLevel":"warning"`) {
			t.Errorf("the server saw %s", got)
		}
	}
	if n := len(s.requests()); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// A server of 2026-07-28 over HTTP wants the header fields that its schemas
// name, whoever calls.
func TestParamHeadersForNewServers(t *testing.T) {
	s := newer("a", `{}`)
	s.lists["tools/list"] = `{"tools":[{"name":"x","inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"}}}}]}`
	w := newWorld(t, s)
	w.endpoint("").Handle(t.Context(), (&client{id: "c"}).call("tools/call", `{"name":"a__x","arguments":{"r":"eu"}}`))
	if last := s.got[len(s.got)-1]; last.Headers["Mcp-Param-Region"] != "eu" {
		t.Errorf("headers %v", last.Headers)
	}
}
