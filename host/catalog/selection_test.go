package catalog

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestSelections(t *testing.T) {
	c := with(t, Server{Name: "a"}, Server{Name: "b"}, Server{Name: "c"})
	for _, name := range []string{"a", "b", "c"} {
		f := tools("get_x", "put_x")
		f.pages["resources/list"] = []string{`{"resources":[{"uri":"` + name + `://1/2","name":"n"}]}`}
		f.pages["resources/templates/list"] = []string{`{"resourceTemplates":[{"uriTemplate":"` + name + `://t/{x}","name":"n"}]}`}
		feed(t, c, name, f)
	}
	sub := c.Subscribe()
	defer sub.Close()
	if err := c.SetEndpoints([]Selection{{
		Name: "coding", Servers: []string{"c", "a"},
		Tools:     Filter{Allow: []string{"a__*", "*__get_x"}, Deny: []string{"a__put_x"}},
		Resources: Filter{Deny: []string{"a://*"}},
	}}); err != nil {
		t.Fatal(err)
	}
	if got := sub.Changes(); len(got) != 1 || got[0].Endpoint != "coding" || !got[0].Tools || !got[0].Resources {
		t.Errorf("changes %+v", got)
	}
	e, _ := c.Endpoint("coding")
	v := e.View()
	if got := names(t, v, Tools); !slices.Equal(got, []string{"a__get_x", "c__get_x"}) {
		t.Errorf("tools %q", got)
	}
	if got := names(t, v, Resources); !slices.Equal(got, []string{"c://1/2"}) {
		t.Errorf("resources %q", got)
	}
	if got := names(t, v, Templates); !slices.Equal(got, []string{"c://t/{x}"}) {
		t.Errorf("templates %q", got)
	}
	for name, want := range map[string]bool{"a__get_x": true, "a__put_x": false, "c__put_x": false, "b__get_x": false} {
		if _, ok := v.Tool(name); ok != want {
			t.Errorf("%s leads somewhere: %v", name, ok)
		}
	}
	for uri, want := range map[string]bool{"c://1/2": true, "c://t/9": true, "a://1/2": false, "a://t/9": false, "b://1/2": false} {
		if _, ok := v.Resource(uri); ok != want {
			t.Errorf("%s leads somewhere: %v", uri, ok)
		}
	}
	if !e.Includes("a") || e.Includes("b") || e.Server() != "" {
		t.Error("the endpoint is of a and c")
	}

	// A change shows at the same endpoint; one of servers keeps it.
	if err := c.SetEndpoints([]Selection{{Name: "coding", Servers: []string{"b"}}}); err != nil {
		t.Fatal(err)
	}
	if again, _ := c.Endpoint("coding"); again != e {
		t.Error("the endpoint is another")
	}
	if got := names(t, e.View(), Tools); !slices.Equal(got, []string{"b__get_x", "b__put_x"}) {
		t.Errorf("tools %q", got)
	}
	if err := c.SetServers([]Server{{Name: "b", Tools: Filter{Deny: []string{"put_*"}}}}); err != nil {
		t.Fatal(err)
	}
	if got := names(t, e.View(), Tools); !slices.Equal(got, []string{"b__get_x"}) {
		t.Errorf("tools %q", got)
	}

	for _, bad := range [][]Selection{
		{{Name: "b"}}, {{Name: ""}}, {{Name: "x"}, {Name: "x"}}, {{Name: "x", Tools: Filter{Deny: []string{"["}}}},
	} {
		if err := c.SetEndpoints(bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
	if again, ok := c.Endpoint("coding"); !ok || again != e {
		t.Error("a refused change has changed something")
	}
	if err := c.SetEndpoints(nil); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Endpoint("coding"); ok {
		t.Error("the endpoint is still there")
	}
}

func TestDescriptionsOfOnesOwn(t *testing.T) {
	f := &fake{pages: map[string][]string{"tools/list": {`{"tools":[` +
		`{"name":"a","description":"theirs","inputSchema":{"type":"object","default":9007199254740993}},` +
		`{"name":"b","inputSchema":{"type":"object"}},{"name":"c","description":"stays","inputSchema":{"type":"object"}}]}`}}}
	c := with(t, Server{Name: "s"})
	feed(t, c, "s", f)
	before := view(t, c, "s").Sum(Tools)
	if err := c.SetServers([]Server{{Name: "s", Tools: Filter{Describe: map[string]string{"a": "\"ours\"", "b": "new"}}}}); err != nil {
		t.Fatal(err)
	}
	for endpoint, prefix := range map[string]string{"": "s__", "s": ""} {
		_, _, raw := page(t, view(t, c, endpoint), Tools, nil, "2025-11-25")
		want := `{"tools":[{"name":"` + prefix + `a","description":"\"ours\"","inputSchema":{"type":"object","default":9007199254740993}},` +
			`{"name":"` + prefix + `b","inputSchema":{"type":"object"},"description":"new"},{"name":"` + prefix + `c","description":"stays","inputSchema":{"type":"object"}}]}`
		if raw != want {
			t.Errorf("/mcp/%s: %s\nwant %s", endpoint, raw, want)
		}
	}
	if view(t, c, "s").Sum(Tools) == before {
		t.Error("clients are not told of another description")
	}
}

// Patterns for URIs look through slashes.
func TestPatternsOfURIs(t *testing.T) {
	c := with(t, Server{Name: "s", Resources: Filter{Allow: []string{"file:///home/*"}, Deny: []string{"*/.ssh/*"}}})
	feed(t, c, "s", resources("file:///home/me/a.md", "file:///home/me/.ssh/id", "file:///etc/passwd"))
	if got := names(t, view(t, c, ""), Resources); !slices.Equal(got, []string{"file:///home/me/a.md"}) {
		t.Errorf("resources %q", got)
	}
}

func TestInputSchemas(t *testing.T) {
	c := with(t, Server{Name: "s", Tools: Filter{Rename: map[string]string{"a": "z"}}})
	feed(t, c, "s", tools("a"))
	want := json.RawMessage(`{"type":"object"}`)
	if got := view(t, c, "").InputSchema("s__z"); string(got) != string(want) {
		t.Errorf("schema %s", got)
	}
	if got := view(t, c, "").InputSchema("s__a"); got != nil {
		t.Errorf("schema %s", got)
	}
}
