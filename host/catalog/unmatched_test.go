package catalog

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hermes-host/hermes-host/shared/jsonrpc"

	"github.com/hermes-host/hermes-host/host/session"
)

func told(all []Unmatched) (out []string) {
	for _, u := range all {
		out = append(out, fmt.Sprintf("%s %s %s", u.List, u.Setting, u.Pattern))
	}
	return out
}

// TestUnmatched: what a configuration says of entries that a server does not
// list is found, and nothing else.
func TestUnmatched(t *testing.T) {
	c := with(t, Server{Name: "s",
		Tools: Filter{
			Allow: []string{"read*", "alow_*", "bad"}, Deny: []string{"read_secret", "nosuch_*"},
			Rename: map[string]string{"read": "get", "no_such": "x"}, Describe: map[string]string{"read": "x", "nope": "x"},
		},
		Resources: Filter{Allow: []string{"file:///a", "file:///t/*/x", "*/etc", "nosuch:*"}, Deny: []string{"file:///b"}},
		Prompts:   Filter{Deny: []string{"p"}},
	}, Server{Name: "other"})
	check := func(what string, want ...string) {
		t.Helper()
		servers, selections := c.Unmatched()
		if got := told(servers["s"]); !slices.Equal(got, want) || len(selections) != 0 || len(servers["other"]) != 0 {
			t.Errorf("%s: %q, %v; want %q", what, servers, selections, want)
		}
	}
	check("before the lists are known")

	f := tools("read", "read_secret")
	f.pages["tools/list"][0] = `{"tools":[` + tool("read") + `,` + tool("read_secret") + `,{"name":"bad"}]}`
	f.pages["resources/list"] = []string{`{"resources":[{"uri":"file:///a","name":"n"}]}`}
	f.pages["resources/templates/list"] = []string{`{"resourceTemplates":[{"uriTemplate":"file:///t/{x}","name":"n"}]}`}
	f.pages["prompts/list"] = []string{`{"prompts":[]}`}
	feed(t, c, "s", f)
	all := []string{
		"tools allow alow_*", "tools deny nosuch_*", "tools rename no_such", "tools describe nope",
		"resources allow nosuch:*", "resources deny file:///b", "prompts deny p",
	}
	check("listed", all...)
	h, _ := c.Handle("s")
	h.Withdraw()
	check("while the server is away", all...)

	// The server answers with an error now: nothing is known of its tools.
	broken := tools()
	broken.pages = f.pages
	broken.odd = func(req session.Request) (session.Reply, error) {
		if req.Method == "tools/list" {
			return session.Reply{Error: jsonrpc.Errorf(jsonrpc.CodeInternalError, "not now")}, nil
		}
		return session.Reply{Result: []byte(f.pages[req.Method][0])}, nil
	}
	_ = h.List(t.Context(), broken, 1<<8-1) // the error says that tools were refused
	check("with a list refused", all[4:]...)

	f.pages["tools/list"] = tools("read", "read_secret", "bad", "alow_x", "nosuch_x", "no_such", "nope").pages["tools/list"]
	f.pages["resources/list"][0] = `{"resources":[{"uri":"file:///a","name":"n"},{"uri":"file:///b","name":"n"},{"uri":"nosuch:1","name":"n"}]}`
	f.pages["prompts/list"] = []string{`{"prompts":[{"name":"p"}]}`}
	feed(t, c, "s", f)
	check("listed anew")

	if err := c.SetServers([]Server{{Name: "s", Tools: Filter{Deny: []string{"red"}}}}); err != nil {
		t.Fatal(err)
	}
	check("with another filter", "tools deny red")
}

// TestUnmatchedSelections: patterns of an endpoint may be for servers that have
// not come up yet, and are judged by the names that clients see.
func TestUnmatchedSelections(t *testing.T) {
	c := with(t, Server{Name: "a", Tools: Filter{Deny: []string{"hidden"}}}, Server{Name: "b"}, Server{Name: "c"})
	if err := c.SetEndpoints([]Selection{{
		Name: "e", Servers: []string{"a", "b"},
		Tools:     Filter{Allow: []string{"a__x", "x", "a__hidden", "b__*", "c__x", "*__z", "?__x"}},
		Resources: Filter{Deny: []string{"file:*"}},
	}, {Name: "all", Servers: []string{"c"}}}); err != nil {
		t.Fatal(err)
	}
	check := func(what string, want ...string) {
		t.Helper()
		_, selections := c.Unmatched()
		if got := told(selections["e"]); !slices.Equal(got, want) || len(selections) > 1 {
			t.Errorf("%s: %q; want %q", what, selections, want)
		}
	}
	feed(t, c, "a", tools("x", "hidden"))
	check("b is not there yet", "tools allow x", "tools allow a__hidden", "tools allow c__x")
	feed(t, c, "b", tools("y"))
	check("all are there", "tools allow x", "tools allow a__hidden", "tools allow c__x", "tools allow *__z", "resources deny file:*")
	feed(t, c, "b", tools("z"))
	check("b lists z", "tools allow x", "tools allow a__hidden", "tools allow c__x", "resources deny file:*")
}
