package config

import (
	"strings"
	"testing"
)

// TestFromClient: the configuration of an MCP client is recognised, whatever the
// file's name, and its first server shown as a block that can be used, without
// its secrets.
func TestFromClient(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a process", `{"mcpServers": {"my files": {"command": "npx", "args": ["-y", "${workspaceFolder}/a \"b\""], "env": {"TOKEN": "s3cret", "A.B": 1}}, "b": {"url": "http://b"}}}`,
			`server "my-files" {
  transport "stdio" {
    command = "npx"
    args    = ["-y", "$${workspaceFolder}/a \"b\""]
    env     = { "A.B" = "…", "TOKEN" = "…" }
  }
}`},
		{"VS Code", "\n" + `{"inputs": [], "servers": {"a": {"type": "http", "url": "https://a/mcp?key=s3cret", "headers": {"X-Key": "s3cret"}}}}`,
			`server "a" {
  transport "http" {
    url     = "https://a/mcp?…"
    headers = { "X-Key" = "…" }
  }
}`},
		{"sse", `{"mcpServers": {"a": {"type": "sse", "url": "https://a/sse"}}}`, "server \"a\" {\n  transport \"sse\" {\n    url = \"https://a/sse\"\n  }\n}"},
		{"none", `{"mcpServers": {}}`, ""},
		{"odd", `{"mcpServers": {"a": {"command": 1}}}`, ""},
	} {
		for _, path := range []string{"a.json", "a.hcl"} {
			file, diags := Parse([]byte(c.text), path, Options{})
			text := diags.String()
			if file != nil || diags.Len() != 1 || !strings.Contains(text, "configuration of an MCP client") || strings.Contains(text, "s3cret") {
				t.Errorf("%s, %s: %s", c.name, path, text)
			}
			if c.want == "" {
				continue
			}
			if !strings.Contains(text, "\n\n"+c.want+"\n") {
				t.Errorf("%s: %s\nwant %s", c.name, text, c.want)
			}
			if again, diags := Parse([]byte(c.want), "b.hcl", Options{}); diags.HasErrors() || len(again.config.Servers) != 1 {
				t.Errorf("%s: the block is wrong: %s", c.name, diags)
			}
		}
	}
	for _, text := range []string{`{"server": {"a": {"transport": {"stdio": {"command": "x"}}}}}`, `{"servers": 1}`, `{"mcpServers": {"a"`, `servers = 1`, ``} {
		if diags, ok := fromClient([]byte(text), "a.json"); ok {
			t.Errorf("%s: %s", text, diags)
		}
	}
}
