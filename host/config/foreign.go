package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hermes-host/hermes-host/internal/rawjson"
)

// foreign are the members by which MCP clients name their servers: Claude and
// Cursor, and VS Code.
var foreign = []string{"mcpServers", "servers"}

// fromClient recognises the configuration of an MCP client, which people have and
// try first, and shows how its first server looks here. It shows neither the file's
// lines nor values that are secret here.
func fromClient(text []byte, path string) (Diagnostics, bool) {
	if text = bytes.TrimSpace(text); len(text) == 0 || text[0] != '{' || !json.Valid(text) {
		return Diagnostics{}, false
	}
	for _, member := range foreign {
		servers := rawjson.Get(text, member)
		if len(servers) == 0 || servers[0] != '{' {
			continue
		}
		detail := fmt.Sprintf("%s is the configuration of an MCP client: it names servers by %q. Here each server is a block", path, member)
		if example := firstServer(servers); example != "" {
			detail += ", in a file whose name ends in .hcl. The first looks like this, with its own values in place of \"…\":\n\n" + example
		} else {
			detail += ": server \"name\" { transport \"stdio\" { command = \"…\" } }."
		}
		return problem("Configuration of an MCP client", "%s", detail), true
	}
	return Diagnostics{}, false
}

// firstServer writes the first server of a client's configuration as a block;
// empty if it is none that can be told.
func firstServer(servers []byte) string {
	var name string
	var first json.RawMessage
	_ = rawjson.Fields(servers, func(key string, val json.RawMessage) bool { // it is valid
		name, first = key, val
		return false
	})
	var s struct {
		Type, Command, URL, CWD string
		Args                    []string
		Env, Headers            map[string]any
	}
	if json.Unmarshal(first, &s) != nil {
		return ""
	}
	kind := "stdio"
	switch {
	case s.Command != "":
	case s.URL != "" && s.Type == "sse":
		kind = "sse"
	case s.URL != "":
		kind = "http"
	default:
		return ""
	}
	var attributes [][2]string
	width := 0
	set := func(attribute, value string) {
		if value != "" {
			attributes = append(attributes, [2]string{attribute, value})
			width = max(width, len(attribute))
		}
	}
	if kind == "stdio" {
		var args []string
		for _, arg := range s.Args {
			args = append(args, hclText(arg))
		}
		set("command", hclText(s.Command))
		if len(args) > 0 {
			set("args", "["+strings.Join(args, ", ")+"]")
		}
		set("env", keysOf(s.Env))
		if s.CWD != "" {
			set("cwd", hclText(s.CWD))
		}
	} else {
		set("url", hclText(withoutQuery(s.URL)))
		set("headers", keysOf(s.Headers))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "server %s {\n  transport %q {\n", hclText(plainName(name)), kind)
	for _, a := range attributes {
		fmt.Fprintf(&b, "    %-*s = %s\n", width, a[0], a[1])
	}
	b.WriteString("  }\n}")
	return b.String()
}

// keysOf writes a map without its values; empty if there are none.
func keysOf(values map[string]any) string {
	if len(values) == 0 {
		return ""
	}
	var all []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		all = append(all, hclText(key)+` = "…"`)
	}
	return "{ " + strings.Join(all, ", ") + " }"
}

// hclText writes a text as HCL has it.
func hclText(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r < ' ':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return `"` + strings.NewReplacer("${", "$${", "%{", "%%{").Replace(b.String()) + `"`
}

var unnamable = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// plainName makes a name that a server may have.
func plainName(name string) string {
	name = strings.Trim(unnamable.ReplaceAllString(name, "-"), "-_")
	if len(name) > 40 {
		name = name[:40]
	}
	if name == "" {
		return "name"
	}
	return name
}

// withoutQuery cuts what may be a secret off a URL.
func withoutQuery(url string) string {
	if before, _, found := strings.Cut(url, "?"); found {
		return before + "?…"
	}
	return url
}
