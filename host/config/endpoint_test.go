package config

import (
	"slices"
	"strings"
	"testing"
)

// What sessions, capabilities and endpoints can be wrong in, each with a
// message that says what to do.
func TestScopesAndEndpoints(t *testing.T) {
	const server = `server "files" {
  transport "stdio" { command = "x" }
  SETTINGS
}
server "git" {
  transport "stdio" { command = "x" }
}
`
	for _, tt := range []struct{ settings, more, want string }{
		{`session = "client"`, ``, ``},
		{`capabilities = []`, `endpoint "coding" { servers = ["git", "files"] }`, ``},
		{`capabilities = ["sampling.tools"]`, ``, ``},
		{`session = "each"`, ``, `must be one of shared, client`},
		{`idle_timeout = "5m"`, ``, `unless session = "client" is set`},
		{`max_sessions = 5`, ``, `unless session = "client" is set`},
		{"session = \"client\"\n  capabilities = []", ``, `each client's own capabilities`},
		{`capabilities = ["roots"]`, ``, `set session = "client"`},
		{`capabilities = ["elicitation"]`, ``, `elicitation.form, elicitation.url`},
		{`tools { describe = { a = "" } }`, ``, `the description is empty`},
		{`prompts { describe = { a = "x" } }`, ``, `Only tools`},
		{``, `endpoint "files" { servers = ["git"] }`, `There is a server or endpoint "files" already`},
		{``, `endpoint "c" { servers = ["file"] }`, `the nearest is "files"`},
		{``, `endpoint "c" { servers = ["elsewhere"] }`, `no server of that name`},
		{``, `endpoint "c" { servers = ["git", "git"] }`, `in the list twice`},
		{``, `endpoint "c" { }`, `needs "servers"`},
		{``, `endpoint "c d" { servers = ["git"] }`, `The name of an endpoint`},
		{``, "endpoint \"c\" {\n  servers = [\"git\"]\n  tools { rename = {} }\n}", `"rename" is not expected`},
	} {
		_, diags := Parse([]byte(strings.Replace(server, "SETTINGS", tt.settings, 1)+tt.more), "c.hcl", options())
		text := strings.Join(strings.Fields(diags.String()), " ")
		if tt.want == "" && text != "" || !strings.Contains(text, tt.want) {
			t.Errorf("%s %s:\n%s\nwant %s", tt.settings, tt.more, text, tt.want)
		}
	}
	f, diags := Parse([]byte(strings.Replace(server, "SETTINGS", "capabilities = []", 1)), "c.hcl", options())
	if diags.Len() > 0 {
		t.Fatal(diags)
	}
	if got := f.config.Servers[0]; got.Capabilities == nil || len(got.Capabilities) != 0 || got.Session != "shared" {
		t.Errorf("%+v", got)
	}
	if got := f.config.Servers[1].Capabilities; !slices.Equal(got, []string{"elicitation.form", "elicitation.url", "sampling"}) {
		t.Errorf("default: %q", got)
	}
}
