package host

import (
	"slices"
	"strings"
	"testing"

	"github.com/hermes-host/hermes-host/host/admin"
)

// TestUnmatchedIsTold: filters that apply to nothing are told, in the log once,
// and no longer when they apply to something.
func TestUnmatchedIsTold(t *testing.T) {
	const some = `tools {
    deny     = ["nosuch_*", "other"]
    rename   = { no_such = "x" }
    describe = { mark = "Marks." }
  }`
	const endpoint = `endpoint "few" {
  servers = ["s"]
  tools { allow = ["s__mark", "mark"] }
}
`
	w := start(t, false, block("s", "s", "", some), endpoint)
	warned := func() (all []string) {
		lines, _, _ := w.host.Logs().Since(0)
		for _, l := range lines {
			for _, f := range l.Fields {
				if l.Level == "warn" && f.Key == "advice" {
					all = append(all, f.Value)
				}
			}
		}
		slices.Sort(all)
		return all
	}
	const (
		ofServer   = `matches nothing that the server lists: tools deny "nosuch_*", tools rename "no_such"`
		ofEndpoint = `matches nothing that its servers offer: tools allow "mark"`
	)
	w.await("both warnings", func() bool { return len(warned()) >= 2 })
	if got := w.status("s"); got.Advice != ofServer || !slices.Equal(got.Catalog.Unmatched, []admin.Unmatched{
		{List: "tools", Setting: "deny", Pattern: "nosuch_*"}, {List: "tools", Setting: "rename", Pattern: "no_such"},
	}) {
		t.Errorf("the server's status: %q, %v", got.Advice, got.Catalog.Unmatched)
	}
	if got := w.host.Status().Endpoints; len(got) != 1 || got[0].Advice != ofEndpoint || len(got[0].Unmatched) != 1 {
		t.Errorf("the endpoint's status: %+v", got)
	}

	// What goes on to be wrong is not told again; what is new is.
	w.write(block("s", "s", "", strings.Replace(some, "no_such", "nosuch", 1)), endpoint)
	w.reload()
	const fresh = `matches nothing that the server lists: tools rename "nosuch"`
	w.await("the new warning", func() bool { return slices.Contains(warned(), fresh) })
	if got := warned(); !slices.Equal(got, []string{ofEndpoint, ofServer, fresh}) {
		t.Errorf("warnings: %q", got)
	}

	w.write(block("s", "s", "", `tools { deny = ["oth*"] }`), strings.Replace(endpoint, `"mark"`, `"s__h*"`, 1))
	w.reload()
	if s, e := w.status("s"), w.host.Status().Endpoints[0]; s.Advice != "" || s.Catalog.Unmatched != nil || e.Advice != "" || e.Unmatched != nil {
		t.Errorf("set right, and still: %+v, %+v", s, e)
	}
}
