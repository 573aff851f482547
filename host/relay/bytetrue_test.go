package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// sameJSON compares two texts as JSON, numbers by their spelling.
func sameJSON(t *testing.T, what string, got, want json.RawMessage) {
	t.Helper()
	decode := func(raw json.RawMessage) (v any) {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%s: %s is not JSON: %v", what, clipped(raw), err)
		}
		return v
	}
	if !reflect.DeepEqual(decode(got), decode(want)) {
		t.Errorf("%s: %s\nwant %s", what, clipped(got), clipped(want))
	}
}

func clipped(raw json.RawMessage) string { return cut(string(raw), 2000) }

// nested is a schema of that depth.
func nested(depth int) string {
	return strings.Repeat(`{"type":"object","properties":{"in":`, depth) + `{"type":"string"}` + strings.Repeat(`}}`, depth)
}

// wide is a schema of about that many bytes.
func wide(size int) string {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{`)
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"property_%d":{"type":["string","null"],"description":"the property of number %d","enum":["a","b",null]}`, i, i)
	}
	return b.String() + `}}`
}

// Lists at a server's own endpoint say what the server says, whatever it may be.
func TestListsAreTheServers(t *testing.T) {
	lists := map[string]string{
		"tools/list": `{"tools":[` + strings.Join([]string{
			`{"name":"draft-07","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","definitions":{"a":{"type":"integer","exclusiveMinimum":0}},"properties":{"a":{"$ref":"#/definitions/a"}},"dependencies":{"a":["b"]}}}`,
			`{"name":"defs","inputSchema":{"type":"object","$defs":{"n":{"$anchor":"n","type":"object","properties":{"next":{"$ref":"#n"}}}},"properties":{"n":{"$ref":"#/$defs/n"}},"unevaluatedProperties":false},"outputSchema":{"type":"object","$ref":"#/$defs/x","$defs":{"x":{}}}}`,
			`{"name":"deep","inputSchema":` + nested(21) + `}`,
			`{"name":"wide","inputSchema":` + wide(300<<10) + `}`,
			`{"name":"long","description":` + string(mustJSON(strings.Repeat("Ω long ", 5000))) + `,"inputSchema":{"type":"object"}}`,
			`{"name":"odd/name.with spaces","title":null,"inputSchema":{"type":"object","default":{"big":12345678901234567890,"small":1e-400}}}`,
			`{"name":"new","inputSchema":{"type":"object","x-mcp-header":"no"},"execution":{"taskSupport":"optional"},"icons":[{"src":"data:,","sizes":["any"]}],"annotations":{"readOnlyHint":true,"future":1},"_meta":{"a.b/c":[null]},"member of 2030":{"a":[]}}`,
		}, ",") + `],"_meta":{"of":"the list"},"ttlMs":5}`,
		"resources/list":           `{"resources":[{"uri":"file:///a%20b?x#y","name":"n","size":9007199254740993,"annotations":{"audience":["user"],"priority":0.1}}]}`,
		"resources/templates/list": `{"resourceTemplates":[{"uriTemplate":"x://{a}/{+b}{?c,d}","name":"n","mimeType":"text/x"},{"uriTemplate":"no { template","name":"n"}]}`,
		"prompts/list":             `{"prompts":[{"name":"p","arguments":[{"name":"a","required":true,"title":"A"}],"icons":[]}]}`,
	}
	s := newServer("a")
	s.lists = lists
	w := newWorld(t, s)
	c := &client{id: "c"}
	for method, want := range lists {
		got := w.endpoint("a").Handle(t.Context(), c.call(method, ""))
		sameJSON(t, method, got.Result, json.RawMessage(want))
	}
	// In the aggregate the entries are the same but for their names, and
	// nulls where the specification wants nothing.
	got := w.endpoint("").Handle(t.Context(), c.call("tools/list", ""))
	var theirs, ours struct{ Tools []map[string]any }
	for raw, into := range map[string]any{lists["tools/list"]: &theirs, string(got.Result): &ours} {
		if err := json.Unmarshal([]byte(raw), into); err != nil {
			t.Fatal(err)
		}
	}
	for i, tool := range ours.Tools {
		want := theirs.Tools[i]
		delete(want, "name")
		if want["title"] == nil {
			delete(want, "title")
		}
		delete(tool, "name")
		if !reflect.DeepEqual(tool, want) {
			t.Errorf("tool %d differs", i)
		}
	}
	if len(ours.Tools) != len(theirs.Tools) {
		t.Errorf("%d tools of %d", len(ours.Tools), len(theirs.Tools))
	}
}

func mustJSON(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return out
}

// Answers and notifications arrive as the bytes that they were, for methods
// that nobody knows, too.
func TestAnswersAreTheServers(t *testing.T) {
	answers := []session.Reply{
		{Result: json.RawMessage(`{"content":[{"type":"future","x":1.50}],"structuredContent":{"n":12345678901234567890,"z":0,"a":0},"isError":true}`)},
		{Result: json.RawMessage(`{ "resultType" : "complete", "contents":[ ] }`)},
		{Result: json.RawMessage(`{"text":"` + strings.Repeat("x", 92<<10) + `"}`)},
		{Result: json.RawMessage(`"no object"`)},
		{Error: &jsonrpc.Error{Code: -32603, Message: "broken", Data: json.RawMessage(`{"deep":[1e400]}`)}},
		{Error: &jsonrpc.Error{Code: 12345, Message: ""}},
	}
	for _, method := range []string{"tools/call", "prompts/get", "resources/read", "completion/complete", "tasks/get", "method/of/2030"} {
		for i, want := range answers {
			s := newServer("a", "x")
			w := newWorld(t, s)
			const note = `{"n":12345678901234567890, "spaced" : true}`
			s.serve = func(_ context.Context, req session.Request) (session.Reply, error) {
				w.r.Handler("a").Notification(session.Notification{Method: "notifications/of/2030", Params: json.RawMessage(note), Related: s.next.Load()})
				if string(req.Params) != `{"name":"x","uri":"u:1","ref":{"type":"new"} , "n":12345678901234567890}` {
					t.Errorf("%s: the server saw %s", method, req.Params)
				}
				return want, nil
			}
			c := &client{id: "c"}
			got := w.endpoint("a").Handle(t.Context(), c.call(method, `{"name":"x","uri":"u:1","ref":{"type":"new"} , "n":12345678901234567890}`))
			if string(got.Result) != string(want.Result) || got.Error != want.Error {
				t.Errorf("%s, answer %d: %s", method, i, clipped(got.Result))
			}
			if heard := c.streamed(); len(heard) != 1 || heard[0] != "notifications/of/2030 "+note {
				t.Errorf("%s: heard %q", method, heard)
			}
		}
	}
	s := newServer("a")
	w := newWorld(t, s)
	c := &client{id: "c"}
	e := w.endpoint("a")
	e.Join(c)
	defer e.Leave(c)
	e.Notification(t.Context(), c, "notifications/of/2030", json.RawMessage(`{"a":[ 1 ]}`))
	w.r.Handler("a").Notification(session.Notification{Method: "notifications/back", Params: json.RawMessage(`{"b":[ 1 ]}`)})
	if len(s.noted) != 1 || s.noted[0] != `notifications/of/2030 {"a":[ 1 ]}` {
		t.Errorf("the server was told %q", s.noted)
	}
	if got := c.take(); len(got) != 1 || got[0] != `notifications/back {"b":[ 1 ]}` {
		t.Errorf("the client was told %q", got)
	}
}
