package relay

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
	"github.com/hermes-host/hermes-host/internal/rawjson"
)

func full(name string) *upserver {
	s := newServer(name, "get_a", "put")
	s.lists["prompts/list"] = `{"prompts":[{"name":"p"}]}`
	s.lists["resources/list"] = `{"resources":[{"uri":"` + name + `:1","name":"n"}]}`
	s.lists["resources/templates/list"] = `{"resourceTemplates":[{"uriTemplate":"` + name + `:t/{x}","name":"n"}]}`
	return s
}

func TestRequests(t *testing.T) {
	for _, tt := range []struct {
		endpoint, method, params string
		server                   string // that is asked; "" for none
		sent                     string // the params that it sees
		idempotent               bool
		want                     string // a part of the reply
	}{
		{"", "tools/call", `{"name":"a__put","arguments":{"n":9007199254740993}}`, "a", `{"name":"put","arguments":{"n":9007199254740993}}`, false, "{}"},
		{"", "tools/call", `{"arguments":{"name":"x"},"name":"b__get_a"}`, "b", `{"arguments":{"name":"x"},"name":"get_a"}`, true, "{}"},
		{"a", "tools/call", `{ "name": "put" }`, "a", `{ "name": "put" }`, false, "{}"},
		{"a", "tools/call", `{"name":"hidden"}`, "a", `{"name":"hidden"}`, false, "{}"},
		{"", "tools/call", `{"name":"put"}`, "", "", false, "-32602 Unknown tool: put"},
		{"", "tools/call", `{}`, "", "", false, "-32602"},
		{"", "tools/call", ``, "", "", false, "-32602"},
		{"", "tools/call", `{"name":7}`, "", "", false, "-32602"},
		{"", "tools/call", `[1]`, "", "", false, "-32602"},
		{"", "prompts/get", `{"name":"b__p"}`, "b", `{"name":"p"}`, true, "{}"},
		{"", "prompts/get", `{"name":"p"}`, "", "", false, "-32602 Unknown prompt: p"},
		{"", "resources/read", `{"uri":"b:1"}`, "b", `{"uri":"b:1"}`, true, "{}"},
		{"", "resources/read", `{"uri":"b:t/9"}`, "b", `{"uri":"b:t/9"}`, true, "{}"},
		{"", "resources/read", `{"uri":"z:1"}`, "", "", false, `-32002 Resource not found {"uri":"z:1"}`},
		{"a", "resources/read", `{"uri":"z:1"}`, "a", `{"uri":"z:1"}`, true, "{}"},
		{"", "resources/read", `{}`, "", "", false, "-32602"},
		{"", "completion/complete", `{"ref":{"type":"ref/prompt","name":"a__p"},"argument":{}}`, "a", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{}}`, true, "{}"},
		{"", "completion/complete", `{"ref":{"type":"ref/resource","uri":"b:t/{x}"}}`, "b", `{"ref":{"type":"ref/resource","uri":"b:t/{x}"}}`, true, "{}"},
		{"", "completion/complete", `{"ref":{"type":"ref/prompt","name":"no"}}`, "", "", false, "-32602"},
		{"", "completion/complete", `{"ref":{"type":"ref/new"}}`, "", "", false, "-32602"},
		{"a", "completion/complete", `{"ref":{"type":"ref/new"}}`, "a", `{"ref":{"type":"ref/new"}}`, true, "{}"},
		{"", "future/method", `{"x":1}`, "", "", false, "-32601"},
		{"", "future/method", `{"name":"a__put"}`, "a", `{"name":"put"}`, false, "{}"},
		{"", "prompts/future", `{"name":"b__p"}`, "b", `{"name":"p"}`, false, "{}"},
		{"", "future/method", `{"uri":"b:1"}`, "b", `{"uri":"b:1"}`, false, "{}"},
		{"a", "future/method", `{"x":1}`, "a", `{"x":1}`, false, "{}"},
		{"a", "future/method", ``, "a", ``, false, "{}"},
		{"", "logging/setLevel", `{"level":"loud"}`, "", "", false, "-32602"},
		{"", "tools/list", `{"cursor":"nonsense"}`, "", "", false, "-32602"},
	} {
		t.Run(tt.endpoint+" "+tt.method+" "+tt.params, func(t *testing.T) {
			a, b := full("a"), full("b")
			w := newWorld(t, a, b)
			c := &client{id: "c"}
			got := text(w.endpoint(tt.endpoint).Handle(t.Context(), c.call(tt.method, tt.params)))
			if !strings.Contains(got, tt.want) {
				t.Errorf("reply %s, want %s", got, tt.want)
			}
			for name, s := range w.ups {
				var want []string
				if name == tt.server {
					want = []string{tt.method + " " + tt.sent}
					if len(s.opts) != 1 || s.opts[0].Idempotent != tt.idempotent {
						t.Errorf("options %+v", s.opts)
					}
				}
				if got := s.requests(); !slices.Equal(got, want) {
					t.Errorf("%s saw %q, want %q", name, got, want)
				}
			}
		})
	}
}

// Results and JSON-RPC errors arrive as they were sent.
func TestRepliesStayAsSent(t *testing.T) {
	s := newServer("a", "x")
	want := session.Reply{Result: json.RawMessage(`{ "structuredContent":{"big":12345678901234567890,"f":1.50},"future":[null],"content":[] }`)}
	s.serve = func(context.Context, session.Request) (session.Reply, error) { return want, nil }
	w := newWorld(t, s)
	c := &client{id: "c"}
	got := w.endpoint("").Handle(t.Context(), c.call("tools/call", `{"name":"a__x"}`))
	if string(got.Result) != string(want.Result) {
		t.Errorf("got %s", got.Result)
	}
}

func TestHeadersReachTheServer(t *testing.T) {
	s := newServer("a", "x")
	w := newWorld(t, s)
	call := (&client{id: "c"}).call("tools/call", `{"name":"a__x"}`)
	call.Headers = map[string]string{"Mcp-Param-Region": "eu"}
	w.endpoint("").Handle(t.Context(), call)
	if last := s.got[len(s.got)-1]; last.Headers["Mcp-Param-Region"] != "eu" {
		t.Errorf("headers %v", last.Headers)
	}
}

func TestErrorsOfAServerThatIsAway(t *testing.T) {
	s := full("a")
	w := newWorld(t, s, newServer("b", "y"))
	s.down.Store(true)
	h, _ := w.cat.Handle("a")
	h.Withdraw()
	c := &client{id: "c"}
	for _, endpoint := range []string{"", "a"} {
		name := map[string]string{"": "a__put", "a": "put"}[endpoint]
		got := w.endpoint(endpoint).Handle(t.Context(), c.call("tools/call", `{"name":"`+name+`"}`))
		var res struct {
			IsError bool
			Content []struct{ Type, Text string }
			Meta    map[string]struct {
				Server, Reason, State string
				RetryAfterMs          int
				Sent                  bool
			} `json:"_meta"`
		}
		if err := json.Unmarshal(got.Result, &res); err != nil {
			t.Fatalf("%s: %v", text(got), err)
		}
		facts := res.Meta[metaError]
		if !res.IsError || !strings.Contains(res.Content[0].Text, `server "a" is reconnecting`) ||
			facts.Server != "a" || facts.Reason != "reconnecting" || facts.RetryAfterMs != 3000 || facts.Sent {
			t.Errorf("got %s", got.Result)
		}
	}
	got := w.endpoint("").Handle(t.Context(), c.call("resources/read", `{"uri":"a:1"}`))
	if got.Error == nil || got.Error.Code != -32000 || rawjson.Text(got.Error.Data, "reason") != "reconnecting" {
		t.Errorf("got %s", text(got))
	}
	// The others' lists don't notice.
	if got := text(w.endpoint("").Handle(t.Context(), c.call("tools/list", ""))); !strings.Contains(got, "b__y") || strings.Contains(got, "a__") {
		t.Errorf("the list is %s", got)
	}
}

func TestFactsOfErrors(t *testing.T) {
	for reason, err := range map[string]error{
		"reconnecting":         &supervisor.ReconnectingError{Server: "a"},
		"breaker open":         &supervisor.OpenError{Server: "a"},
		"unavailable":          &supervisor.UnavailableError{Server: "a"},
		"authorization needed": &supervisor.AuthNeededError{Server: "a"},
		"outcome unknown":      &supervisor.OutcomeUnknownError{Server: "a", Cause: session.Failuref(false, "x")},
		"timeout":              &supervisor.TimeoutError{Server: "a"},
		"message refused":      &supervisor.RefusedError{Server: "a", Cause: &session.Failure{Message: "x"}},
		"busy":                 &BusyError{"x"},
		"failed":               context.DeadlineExceeded,
	} {
		f := factsOf("a", err)
		sent := reason == "outcome unknown" || reason == "timeout" || reason == "message refused" || reason == "failed"
		if f.Reason != reason || f.Sent != sent {
			t.Errorf("%T: %+v", err, f)
		}
	}
}

func TestDescribe(t *testing.T) {
	a, b := newServer("a"), newServer("b")
	b.info.Instructions = strings.Repeat("é", maxOfOne)
	w := newWorld(t, a, b)
	all := w.endpoint("").Describe()
	if !strings.HasPrefix(all.Instructions, "# a\n\nHere the names of its tools and prompts begin with `a__`.\n\nUse a.\n\n# b\n\nHere") || len(all.Instructions) > maxOfOne+250 || !json.Valid(all.Capabilities) {
		t.Errorf("aggregate: %.100s", all.Instructions)
	}
	one := w.endpoint("a").Describe()
	caps := `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"logging":{},"completions":{}}`
	if string(one.Capabilities) != caps || string(one.ServerInfo) != string(a.info.ServerInfo) || one.Instructions != "Use a." {
		t.Errorf("alone: %+v", one)
	}
	h, _ := w.cat.Handle("a")
	h.Withdraw()
	if again := w.endpoint("a").Describe(); string(again.ServerInfo) != string(one.ServerInfo) {
		t.Errorf("parked: %+v", again)
	}
	if again := w.endpoint("").Describe(); strings.Contains(again.Instructions, "Use a.") {
		t.Error("the aggregate has instructions of a parked server")
	}
}

func TestClientNotifications(t *testing.T) {
	s := newServer("a", "x")
	w := newWorld(t, s)
	c := &client{id: "c"}
	for _, endpoint := range []string{"", "a"} {
		for _, method := range []string{"notifications/roots/list_changed", "notifications/future"} {
			w.endpoint(endpoint).Notification(t.Context(), c, method, json.RawMessage(`{"x":1}`))
		}
	}
	if !slices.Equal(s.noted, []string{`notifications/future {"x":1}`}) {
		t.Errorf("the server heard %q", s.noted)
	}
	s.down.Store(true)
	w.endpoint("a").Notification(t.Context(), c, "notifications/future", nil)
}

// FuzzRewrite: whatever a client sends, the server gets the same but for its
// name and the token.
func FuzzRewrite(f *testing.F) {
	f.Add([]byte(`{"name":"a__put","_meta":{"progressToken":"t","k":[1]},"arguments":{"_meta":{"progressToken":5}}}`))
	f.Add([]byte(`{"n\u0061me":"a__put","_meta":{}}`))
	f.Add([]byte(`{"name":"x","name":"a__put","_meta":null,"_meta":{"progressToken":1.0e3}}`))
	f.Fuzz(func(t *testing.T, params []byte) {
		if !json.Valid(params) {
			return
		}
		params = []byte(strings.TrimSpace(string(params)))
		s := newServer("a", "put")
		w := newWorld(t, s)
		defer w.r.Close()
		reply := w.endpoint("").Handle(t.Context(), (&client{id: "c"}).call("tools/call", string(params)))
		if reply.Error != nil {
			if reply.Error.Code != -32602 {
				t.Fatalf("%s: %s", params, text(reply))
			}
			return
		}
		sent := s.got[len(s.got)-1].Params
		var was, is map[string]any
		for raw, into := range map[string]*map[string]any{string(params): &was, string(sent): &is} {
			d := json.NewDecoder(strings.NewReader(raw))
			d.UseNumber()
			if err := d.Decode(into); err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
		}
		if is["name"] != "put" {
			t.Fatalf("the server got %s", sent)
		}
		was["name"] = "put"
		if meta, ok := was["_meta"].(map[string]any); ok && meta["progressToken"] != nil {
			meta["progressToken"] = is["_meta"].(map[string]any)["progressToken"]
		}
		x, _ := json.Marshal(was)
		y, _ := json.Marshal(is)
		if string(x) != string(y) {
			t.Fatalf("%s became %s", params, sent)
		}
	})
}

func BenchmarkHandle(b *testing.B) {
	s := newServer("a", "x")
	result := session.Reply{Result: json.RawMessage(`{"content":[]}`)}
	for name, params := range map[string]string{
		"plain": `{"name":"a__x","arguments":{"text":"hello"}}`,
		"token": `{"name":"a__x","arguments":{"text":"hello"},"_meta":{"progressToken":7}}`,
		"1MiB":  `{"name":"a__x","arguments":{"text":"` + strings.Repeat("x", 1<<20) + `"},"_meta":{"progressToken":7}}`,
	} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b, s)
			w.r.cfg.Lookup = func(string, Client) (Server, bool) { return quick{s, result}, true }
			e := w.endpoint("")
			call := (&client{id: "c"}).call("tools/call", params)
			b.ReportAllocs()
			for b.Loop() {
				if r := e.Handle(b.Context(), call); r.Error != nil {
					b.Fatal(text(r))
				}
			}
		})
	}
}

// quick is a server that answers at once.
type quick struct {
	*upserver
	reply session.Reply
}

func (q quick) Call(_ context.Context, req session.Request, _ supervisor.CallOptions) (session.Reply, error) {
	req.Started(1)
	return q.reply, nil
}
