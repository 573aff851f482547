package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestQuarantine(t *testing.T) {
	deep := strings.Repeat(`{"type":"object","properties":{"p":`, 40) + `{"type":"string"}` + strings.Repeat(`}}`, 40)
	for _, tt := range []struct {
		kind   Kind
		raw    string
		reason string // a part of it; "" is fit
	}{
		{Tools, tool("a"), ""},
		{Tools, `3`, "not a JSON object"},
		{Tools, `{"inputSchema":{"type":"object"}}`, "name is absent"},
		{Tools, `{"name":7,"inputSchema":{"type":"object"}}`, "name is absent"},
		{Tools, `{"name":"a"}`, "inputSchema is absent"},
		{Tools, `{"name":"a","inputSchema":null}`, "inputSchema is not an object"},
		{Tools, `{"name":"a","inputSchema":{}}`, `"type" is not "object"`},
		{Tools, `{"name":"a","inputSchema":{"type":["object"]}}`, `"type" is not "object"`},
		{Tools, `{"name":"a","inputSchema":{"type":"object","properties":[]}}`, `"properties" is not an object`},
		{Tools, `{"name":"a","inputSchema":{"type":"object","required":true}}`, `"required" is not an array`},
		{Tools, `{"name":"a","inputSchema":{"type":"object","required":[1]}}`, "something else than names"},
		// Clients are known to refuse all tools for the sake of one such.
		{Tools, `{"name":"a","inputSchema":{"type":"object","properties":{"n":{"type":"int"}}}}`, `"int" is no type of JSON Schema (at /properties/n/type)`},
		{Tools, `{"name":"a","inputSchema":{"type":"object","properties":{"n":{"anyOf":[{"type":"null"},{"type":["string","float"]}]}}}}`, `float is no type`},
		{Tools, `{"name":"a","inputSchema":{"type":"object","properties":{"n":{"type":3}}}}`, "neither a string nor an array"},
		{Tools, `{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"type":"dict"}}`, `"dict" is no type`},
		{Tools, `{"name":"a","inputSchema":{"type":"object"},"description":5}`, "description is not a string"},
		{Tools, `{"name":"a","inputSchema":{"type":"object"},"annotations":[]}`, "annotations is not an object"},
		{Tools, `{"name":"a","description":"` + strings.Repeat("x", maxEntry) + `","inputSchema":{"type":"object"}}`, "bytes"},
		{Tools, `{"name":"a","inputSchema":{"type":"object"},"x":` + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + `}`, "nested deeper"},
		{Tools, "{\"name\":\"a\",\"description\":\"\xff\",\"inputSchema\":{\"type\":\"object\"}}", "not valid UTF-8"},
		// What looks odd and serves.
		{Tools, `{"name":"a","inputSchema":{"type":"object","properties":{"type":{"type":"string"},"x":true},"additionalProperties":false}}`, ""},
		{Tools, `{"name":"a","inputSchema":{"type":"object","properties":{"n":{"type":"string","enum":[{"type":"int"}],"default":{"type":"int"},"x-mcp-header":"N"}}}}`, ""},
		{Tools, `{"name":"a","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","$defs":{"d":{"$ref":"#/$defs/d"}},"definitions":{}}}`, ""},
		{Tools, `{"name":"a","inputSchema":` + deep + `}`, ""},
		{Tools, `{"name":"a","description":null,"inputSchema":{"type":"object"},"outputSchema":null,"future":[1]}`, ""},
		{Tools, `{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}`, ""},
		{Resources, `{"uri":"f:///a","name":"a"}`, ""},
		{Resources, `{"name":"a"}`, "uri is absent"},
		{Resources, `{"uri":"f:///a"}`, "name is absent"},
		{Resources, `{"uri":"f:///a","name":"a","mimeType":{}}`, "mimeType is not a string"},
		{Templates, `{"uriTemplate":"f:///{a","name":"a"}`, ""},
		{Templates, `{"uriTemplate":"","name":"a"}`, "uriTemplate is absent"},
		{Prompts, `{"name":"a","arguments":[{"name":"x"}]}`, ""},
		{Prompts, `{"name":"a","arguments":[{}]}`, "argument 0 has no name"},
		{Prompts, `{"name":"a","arguments":{}}`, "arguments is not an array"},
	} {
		it, bad := read(tt.kind, json.RawMessage(tt.raw))
		label := clip(tt.raw, 120)
		switch {
		case tt.reason == "" && bad != nil:
			t.Errorf("%s: %s", label, bad.Reason)
		case tt.reason == "" && string(it.raw) != tt.raw:
			t.Errorf("%s became %s", label, it.raw)
		case tt.reason != "" && (bad == nil || !strings.Contains(bad.Reason, tt.reason)):
			t.Errorf("%s: %+v, want %q", label, bad, tt.reason)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(tool("a")), 0)
	f.Add([]byte(`{"uriTemplate":"a{b}{?c*}","name":"x"}`), 2)
	f.Fuzz(func(t *testing.T, raw []byte, kind int) {
		k := Kind(uint(kind) % uint(kinds))
		if !json.Valid(raw) || raw[0] <= ' ' {
			return // fetch has scanned the list
		}
		it, bad := read(k, raw)
		if (it == nil) == (bad == nil) {
			t.Fatalf("%s: %v and %v", raw, it, bad)
		}
		if it != nil {
			e := &Entry{Name: it.name, item: it}
			if out := e.render("outer", Prefixed); !json.Valid(out) {
				t.Fatalf("%s rendered as %s", raw, out)
			}
		}
	})
}

func TestIdempotence(t *testing.T) {
	for hints, want := range map[string]bool{
		``: false, `"readOnlyHint":true`: true, `"idempotentHint":true`: true, `"readOnlyHint":false,"destructiveHint":true`: false, `"readOnlyHint":"true"`: false,
	} {
		it, bad := read(Tools, json.RawMessage(`{"name":"a","inputSchema":{"type":"object"},"annotations":{`+hints+`}}`))
		if bad != nil || it.idempotent != want {
			t.Errorf("%s: %v, %v", hints, it, bad)
		}
	}
}

func TestSiblingsOfBadEntriesStay(t *testing.T) {
	c := with(t, Server{Name: "s"})
	var bad []string
	for i := range maxBad + 5 {
		bad = append(bad, fmt.Sprintf(`{"name":"bad%d"}`, i))
	}
	f := &fake{pages: map[string][]string{"tools/list": {`{"tools":[` + tool("a") + `,` + tool("a") + `,` + strings.Join(bad, ",") + `,` + tool("b") + `]}`}}}
	feed(t, c, "s", f)
	if got := names(t, view(t, c, ""), Tools); !slices.Equal(got, []string{"s__a", "s__b"}) {
		t.Fatalf("got %q", got)
	}
	st := c.Status()[0]
	if len(st.Quarantined) != maxBad || st.Quarantined[0].Name != "a" || st.Quarantined[0].List != "tools" || len(st.Notes) != 1 || st.Tools != 2 {
		t.Fatalf("status %+v", st)
	}
}

func TestTemplates(t *testing.T) {
	for _, tt := range []struct {
		template, uri string
		want          bool
	}{
		{"file:///{path}", "file:///a", true},
		{"file:///{path}", "file:///a/b", false},
		{"file:///{+path}", "file:///a/b", true},
		{"file:///{path}", "http:///a", false},
		{"test://template/{id}/data", "test://template/7/data", true},
		{"test://template/{id}/data", "test://template/7/8/data", false},
		{"a://x{/p*}{?q,r}", "a://x/1/2?q=1&r=2", true},
		{"a://x{?q}", "a://x", true},
		{"a://x{#f}", "a://x#y", true},
		{"a://x.y", "a://xzy", false},
		{"a://{open", "a://{open", false},
		{"a://{}", "a://", false},
	} {
		if got := parseTemplate(tt.template).matches(tt.uri); got != tt.want {
			t.Errorf("%s matches %s: %v", tt.template, tt.uri, got)
		}
	}
}
