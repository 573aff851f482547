package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

func TestSetServersRefusesNonsense(t *testing.T) {
	c := with(t, Server{Name: "a"})
	for want, servers := range map[string][]Server{
		"used twice":       {{Name: "x"}, {Name: "x"}},
		"is empty":         {{}},
		"malformed":        {{Name: "x", Tools: Filter{Deny: []string{"["}}}},
		"renamed to nothi": {{Name: "x", Prompts: Filter{Rename: map[string]string{"a": ""}}}},
	} {
		if err := c.SetServers(servers); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", servers, err, want)
		}
	}
	if got := c.Servers(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("a refused set changed the servers to %q", got)
	}
}

func TestFiltersAndRenames(t *testing.T) {
	c := with(t, Server{Name: "s", Tools: Filter{
		Allow: []string{"read_*", "write_*"}, Deny: []string{"*_secret"}, Rename: map[string]string{"read_file": "cat", "write_file": "read_dir"},
	}})
	feed(t, c, "s", tools("read_file", "write_file", "read_dir", "read_secret", "other"))
	v, own := view(t, c, ""), view(t, c, "s")
	got := names(t, v, Tools)
	if len(got) != 3 || got[0] != "s__cat" || !strings.HasPrefix(got[1], "s__read_dir_") || !strings.HasPrefix(got[2], "s__read_dir_") {
		t.Fatalf("got %q", got)
	}
	for outer, want := range map[string]string{"cat": "read_file", "read_file": "", "read_secret": "", "other": "", "read_more": "read_more"} {
		to, ok := own.Tool(outer)
		if ok != (want != "") || to.Name != want {
			t.Errorf("%s leads to %+v, %v; want %q", outer, to, ok, want)
		}
	}
	if _, ok := v.Tool("s__read_more"); ok {
		t.Error("the aggregate knows a tool that no list has shown")
	}
	if st := c.Status()[0]; st.Tools != 3 || st.Filtered != 2 || len(st.Renamed) != 3 {
		t.Errorf("status %+v", st)
	}
}

func TestEntriesStayAsSent(t *testing.T) {
	raw := `{ "z":9007199254740993, "name":"a",  "inputSchema":{"type":"object","x-mcp-header":"H"},"description":null }`
	c := with(t, Server{Name: "s"})
	feed(t, c, "s", &fake{pages: map[string][]string{"tools/list": {`{"tools":[` + raw + `],"ttlMs":5,"_meta":{"k":1}}`}}})
	_, _, own := page(t, view(t, c, "s"), Tools, nil, "2025-11-25")
	if want := `{"tools":[` + raw + `],"ttlMs":5,"_meta":{"k":1}}`; own != want {
		t.Errorf("own endpoint\n%s, want\n%s", own, want)
	}
	_, _, all := page(t, view(t, c, ""), Tools, nil, "2025-11-25")
	want := `{"tools":[{ "z":9007199254740993, "name":"s__a",  "inputSchema":{"type":"object","x-mcp-header":"H"} }]}`
	if all != want {
		t.Errorf("aggregate\n%s, want\n%s", all, want)
	}
	_, _, modern := page(t, view(t, c, "s"), Tools, nil, Stateless)
	if !strings.HasSuffix(modern, `],"ttlMs":5,"_meta":{"k":1},"resultType":"complete","cacheScope":"private"}`) {
		t.Errorf("for 2026-07-28: %s", modern)
	}
	// An older client is not told what only newer ones know.
	feed(t, c, "s", &fake{
		info:  session.Info{ProtocolVersion: Stateless},
		pages: map[string][]string{"tools/list": {`{"resultType":"complete","tools":[],"ttlMs":5,"cacheScope":"public"}`}},
	})
	if _, _, old := page(t, view(t, c, "s"), Tools, nil, "2025-06-18"); old != `{"tools":[]}` {
		t.Errorf("for 2025-06-18: %s", old)
	}
}

// Every page is taken, and our own pages lie over them.
func TestAllPages(t *testing.T) {
	var pages []string
	for p := range 50 {
		var all []string
		for i := range 50 {
			all = append(all, tool(fmt.Sprintf("t%d", p*50+i)))
		}
		pages = append(pages, `{"tools":[`+strings.Join(all, ",")+`]}`)
	}
	c := with(t, Server{Name: "s"})
	f := &fake{pages: map[string][]string{"tools/list": pages}}
	feed(t, c, "s", f)
	v := view(t, c, "")
	var got []string
	var cursors []string
	var cursor json.RawMessage
	for {
		all, next, _ := page(t, v, Tools, cursor, "2025-11-25")
		got = append(got, all...)
		if next == "" {
			break
		}
		cursors = append(cursors, next)
		cursor = json.RawMessage(next)
	}
	if len(got) != 2500 || got[2499] != "s__t2499" || len(cursors) != 2 {
		t.Fatalf("%d tools with %d cursors", len(got), len(cursors))
	}
	// A cursor survives a change of the list.
	f.pages["tools/list"] = append([]string{`{"tools":[` + tool("new") + `]}`}, pages...)
	feed(t, c, "s", f)
	all, _, _ := page(t, view(t, c, ""), Tools, json.RawMessage(cursors[0]), "2025-11-25")
	if all[0] != "s__t1000" {
		t.Errorf("the old cursor leads to %s", all[0])
	}
	// Unless its place has gone.
	feed(t, c, "s", tools("other"))
	for _, bad := range []string{cursors[0], `"x"`, `7`} {
		if _, err := view(t, c, "").List(Tools, json.RawMessage(bad), ""); !errors.Is(err, ErrCursor) {
			t.Errorf("cursor %s: %v", bad, err)
		}
	}
}

func TestPagesAreBoundedInBytes(t *testing.T) {
	var all []string
	for i := range 5 {
		all = append(all, fmt.Sprintf(`{"name":"t%d","description":"%s","inputSchema":{"type":"object"}}`, i, strings.Repeat("x", 1<<20)))
	}
	c := with(t, Server{Name: "s"})
	feed(t, c, "s", &fake{pages: map[string][]string{"tools/list": {`{"tools":[` + strings.Join(all, ",") + `]}`}}})
	first, next, raw := page(t, view(t, c, ""), Tools, nil, "")
	if len(first) != 3 || next == "" || len(raw) > pageBytes {
		t.Fatalf("a page of %d entries, %d bytes, next %q", len(first), len(raw), next)
	}
}

func TestListsThatGoWrong(t *testing.T) {
	c := with(t, Server{Name: "s"})
	h, _ := c.Handle("s")
	feed(t, c, "s", tools("kept"))
	boom := session.Failuref(false, "boom")
	for name, f := range map[string]*fake{
		"tools/list: boom":               {fail: map[string]error{"tools/list": boom}},
		"prompts/list: boom":             {fail: map[string]error{"prompts/list": boom}},
		`"tools" is not an array`:        {pages: map[string][]string{"tools/list": {`{"tools":{}}`}}},
		"the result is unusable":         {pages: map[string][]string{"tools/list": {`[]}`}}},
		"resources/templates/list: boom": {fail: map[string]error{"resources/templates/list": boom}},
	} {
		err := h.List(t.Context(), f, supervisor.AllLists)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
	if err := h.List(t.Context(), &fake{fail: map[string]error{"tools/list": boom}}, supervisor.AllLists); !errors.Is(err, boom) {
		t.Errorf("%v hides the failure", err)
	}
	if got := names(t, view(t, c, ""), Tools); !slices.Equal(got, []string{"s__kept"}) {
		t.Errorf("a failed list left %q", got)
	}
}

func TestCursorsThatNeverEnd(t *testing.T) {
	c := with(t, Server{Name: "s"})
	f := &fake{odd: func(req session.Request) (session.Reply, error) {
		return session.Reply{Result: json.RawMessage(`{"tools":[` + tool("a") + `],"nextCursor":"again"}`)}, nil
	}}
	f.info.Capabilities = json.RawMessage(`{"tools":{}}`)
	feed(t, c, "s", f)
	if len(f.asked) != 2 {
		t.Errorf("%d requests", len(f.asked))
	}
	if st := c.Status()[0]; st.Tools != 1 || len(st.Notes) != 1 || !strings.Contains(st.Notes[0], "circle") {
		t.Errorf("status %+v", st)
	}
}

func TestOnlyDeclaredAndWantedListsAreAsked(t *testing.T) {
	c := with(t, Server{Name: "s"})
	f := tools("a")
	f.info.Capabilities = json.RawMessage(`{"tools":{},"logging":{}}`)
	feed(t, c, "s", f)
	if !slices.Equal(f.asked, []string{"tools/list"}) {
		t.Errorf("asked %q", f.asked)
	}
	g := resources("r:1")
	h, _ := c.Handle("s")
	if err := h.List(t.Context(), g, supervisor.Resources); err != nil {
		t.Fatal(err)
	}
	slices.Sort(g.asked)
	if !slices.Equal(g.asked, []string{"resources/list", "resources/templates/list"}) {
		t.Errorf("asked %q", g.asked)
	}
	v := view(t, c, "")
	if v.Len(Tools) != 1 || v.Len(Resources) != 1 {
		t.Errorf("%d tools, %d resources", v.Len(Tools), v.Len(Resources))
	}
}

func TestWithdrawnNamesStillLeadSomewhere(t *testing.T) {
	c := with(t, Server{Name: "a"}, Server{Name: "b"})
	feed(t, c, "a", tools("x"))
	feed(t, c, "b", tools("y"))
	h, _ := c.Handle("a")
	h.Withdraw()
	h.Withdraw()
	v := view(t, c, "")
	if got := names(t, v, Tools); !slices.Equal(got, []string{"b__y"}) {
		t.Errorf("got %q", got)
	}
	if to, ok := v.Tool("a__x"); !ok || to.Server != "a" {
		t.Errorf("a__x leads to %+v, %v", to, ok)
	}
	if _, ok := v.Tool("a__never"); ok {
		t.Error("a name that was never listed is known")
	}
	if info, ok := c.Info("a"); !ok || info.Capabilities == nil {
		t.Error("what the server said is forgotten")
	}
	feed(t, c, "a", tools("x"))
	if got := names(t, view(t, c, ""), Tools); !slices.Equal(got, []string{"a__x", "b__y"}) {
		t.Errorf("back: %q", got)
	}
}

// Before a server was listed for the first time, its prefix decides.
func TestNamesBeforeTheFirstList(t *testing.T) {
	c := with(t, Server{Name: "a", Tools: Filter{Deny: []string{"bad"}, Rename: map[string]string{"x": "nice"}}}, Server{Name: "b"})
	v := view(t, c, "")
	for outer, want := range map[string]string{"a__x2": "x2", "a__nice": "x", "a__x": "", "a__bad": "", "c__x": "", "a__": ""} {
		if to, ok := v.Tool(outer); ok != (want != "") || to.Name != want {
			t.Errorf("%s leads to %+v, %v", outer, to, ok)
		}
	}
}

func TestResources(t *testing.T) {
	c := with(t, Server{Name: "a", Resources: Filter{Deny: []string{"r:secret"}}}, Server{Name: "b"}, Server{Name: "c"})
	a, b := resources("r:1", "r:secret"), resources("r:1", "r:2")
	a.pages["resources/templates/list"] = []string{`{"resourceTemplates":[{"uriTemplate":"r:{x}","name":"n"}]}`}
	b.pages["resources/templates/list"] = []string{`{"resourceTemplates":[{"uriTemplate":"r:{x}","name":"n"},{"uriTemplate":"q:{x}","name":"n"}]}`}
	// The order in which they come does not matter, that of configuration does.
	feed(t, c, "b", b)
	feed(t, c, "a", a)
	v := view(t, c, "")
	if got := names(t, v, Resources); !slices.Equal(got, []string{"r:1", "r:2"}) {
		t.Errorf("got %q", got)
	}
	for uri, want := range map[string]string{"r:1": "a", "r:2": "b", "r:other": "a", "q:1": "b", "r:secret": "", "z:1": ""} {
		to, ok := v.Resource(uri)
		if to.Server != want || ok != (want != "") {
			t.Errorf("%s belongs to %+v, want %q", uri, to, want)
		}
	}
	if to, _ := v.Template("q:{x}"); to.Server != "b" {
		t.Errorf("the template belongs to %q", to.Server)
	}
	st := c.Status()[1]
	if len(st.Shadowed) != 2 || st.Shadowed[0] != (Shadow{"resources", "r:1", "a"}) || st.Shadowed[1] != (Shadow{"resourceTemplates", "r:{x}", "a"}) {
		t.Errorf("shadowed %+v", st.Shadowed)
	}
	// One that is there goes before one that is not.
	h, _ := c.Handle("a")
	h.Withdraw()
	if to, _ := view(t, c, "").Resource("r:1"); to.Server != "b" {
		t.Errorf("r:1 belongs to %q while a is away", to.Server)
	}
	// The only server with resources is asked for what no list shows.
	c2 := with(t, Server{Name: "a"}, Server{Name: "b"})
	feed(t, c2, "a", resources())
	f := tools("x")
	f.info.Capabilities = json.RawMessage(`{"tools":{}}`)
	feed(t, c2, "b", f)
	if to, ok := view(t, c2, "").Resource("any:1"); !ok || to.Server != "a" {
		t.Errorf("any:1 belongs to %+v", to)
	}
	if _, ok := view(t, c, "a").Resource("r:secret"); ok {
		t.Error("a denied URI can be read on the server's own endpoint")
	}
}

// Another prefix replaces all names at once, and there is a change only when something differs.
func TestChanges(t *testing.T) {
	c := with(t, Server{Name: "a"}, Server{Name: "b"})
	feed(t, c, "a", tools("x"))
	sub := c.Subscribe()
	defer sub.Close()
	if got := sub.Changes(); got != nil {
		t.Errorf("at first: %+v", got)
	}
	for range 200 {
		feed(t, c, "a", tools("x"))
	}
	<-sub.Ready()
	if got := sub.Changes(); got != nil {
		t.Errorf("the same list again: %+v", got)
	}
	feed(t, c, "a", tools("x", "y"))
	feed(t, c, "a", tools("x", "z"))
	<-sub.Ready()
	got := sub.Changes()
	slices.SortFunc(got, func(x, y Change) int { return strings.Compare(x.Endpoint, y.Endpoint) })
	if !slices.Equal(got, []Change{{Endpoint: "", Tools: true}, {Endpoint: "a", Tools: true}}) {
		t.Errorf("changes %+v", got)
	}
	h, _ := c.Handle("a")
	h.Withdraw()
	feed(t, c, "a", tools("x", "z"))
	if got := sub.Changes(); got != nil {
		t.Errorf("away and back with the same: %+v", got)
	}
	if err := c.SetServers([]Server{{Name: "a", Prefix: ptr("new")}, {Name: "b"}}); err != nil {
		t.Fatal(err)
	}
	if got := sub.Changes(); !slices.Equal(got, []Change{{Endpoint: "", Tools: true}}) {
		t.Errorf("after the new prefix: %+v", got)
	}
	if got := names(t, view(t, c, ""), Tools); !slices.Equal(got, []string{"new__x", "new__z"}) {
		t.Errorf("after the new prefix: %q", got)
	}
	if err := c.SetServers([]Server{{Name: "b"}}); err != nil {
		t.Fatal(err)
	}
	if got := names(t, view(t, c, ""), Tools); len(got) != 0 {
		t.Errorf("of a server that has gone: %q", got)
	}
	if _, ok := c.Endpoint("a"); ok {
		t.Error("the endpoint of a server that has gone is there")
	}
	if err := h.List(t.Context(), tools("x"), supervisor.AllLists); err == nil {
		t.Error("a server that has gone was listed")
	}
}

func TestSettle(t *testing.T) {
	c := with(t, Server{Name: "a"}, Server{Name: "b"})
	all, _ := c.Endpoint("")
	one, _ := c.Endpoint("a")
	feed(t, c, "a", tools())
	one.Settle(t.Context())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	all.Settle(ended)
	h, _ := c.Handle("b")
	h.Withdraw()
	all.Settle(t.Context())
}

func BenchmarkList1000(b *testing.B) {
	c := New()
	if err := c.SetServers([]Server{{Name: "s"}}); err != nil {
		b.Fatal(err)
	}
	var all []string
	for i := range 1000 {
		all = append(all, fmt.Sprintf("tool_%d", i))
	}
	h, _ := c.Handle("s")
	if err := h.List(b.Context(), tools(all...), supervisor.AllLists); err != nil {
		b.Fatal(err)
	}
	e, _ := c.Endpoint("")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.View().List(Tools, nil, "2025-11-25"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRebuild(b *testing.B) {
	c := New()
	var servers []Server
	for i := range 100 {
		servers = append(servers, Server{Name: fmt.Sprintf("server%d", i)})
	}
	if err := c.SetServers(servers); err != nil {
		b.Fatal(err)
	}
	var all []string
	for i := range 50 {
		all = append(all, fmt.Sprintf("tool_%d", i))
	}
	for _, s := range servers {
		h, _ := c.Handle(s.Name)
		if err := h.List(b.Context(), tools(all...), supervisor.AllLists); err != nil {
			b.Fatal(err)
		}
	}
	e, _ := c.Endpoint("")
	h, _ := c.Handle("server7")
	for b.Loop() {
		h.c.update("server7", func(*offer) bool { return true })
		e.View()
	}
}

// TestSameListsAgain: a new session that says what the last one said changes
// nothing, so that nobody builds a view anew.
func TestSameListsAgain(t *testing.T) {
	c := with(t, Server{Name: "a"})
	session := func(result string, names ...string) *fake {
		f := tools(names...)
		f.info.Result = json.RawMessage(result)
		return f
	}
	e, _ := c.Endpoint("a")
	feed(t, c, "a", session(`{"n":1}`, "x", "y"))
	was := e.View()
	feed(t, c, "a", session(`{"n":1}`, "x", "y"))
	if e.View() != was {
		t.Error("the same lists made another view")
	}
	for name, other := range map[string]*fake{
		"another tool":      session(`{"n":1}`, "x", "z"),
		"another order":     session(`{"n":1}`, "y", "x"),
		"one tool less":     session(`{"n":1}`, "x"),
		"another handshake": session(`{"n":2}`, "x", "y"),
	} {
		feed(t, c, "a", session(`{"n":1}`, "x", "y"))
		was := e.View()
		if feed(t, c, "a", other); e.View() == was {
			t.Errorf("%s: the view is the old one", name)
		}
	}
	feed(t, c, "a", session(`{"n":1}`, "x", "y"))
	h, _ := c.Handle("a")
	h.Withdraw()
	if feed(t, c, "a", session(`{"n":1}`, "x", "y")); len(e.View().lists[Tools].entries) != 2 {
		t.Error("what was withdrawn is not back")
	}
}
