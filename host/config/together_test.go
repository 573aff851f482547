package config

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestMistakesTogether: what is wrong outside the transport blocks and in them
// is reported at once, and nothing that only follows from a mistake.
func TestMistakesTogether(t *testing.T) {
	const text = `
variable "count" {
  type    = number
  default = "many"
}
locals {
  sum = uper("x")
}
plugin "ws" {
  command = "ws"
  sha256  = local.sum
}
server "a" {
  call_wait = "3"
  transport "stdio" {
    comand = "x"
    args   = [var.count]
  }
}
server "perhaps" {
  enabled = var.count > 1
  transport "http" {
    url = env("NONE")
  }
}
server "third" {
  transport "ws" {
    odd = true
  }
}
server "none" {
}
server "b" {
  transport "http" {
    url = env("NONE_EITHER")
  }
}
`
	p := &fakePlugins{}
	f, diags := Parse([]byte(text), "x.hcl", options())
	if f == nil || !diags.HasErrors() {
		t.Fatal(f, diags)
	}
	c, all := f.Resolve(t.Context(), p)
	if c != nil || !all.Fatal() {
		t.Errorf("a configuration with mistakes can be used: %+v", c)
	}
	lines := strings.Join(all.Lines(), "\n")
	want := []string{
		"x.hcl:4:13: error: Wrong type", "x.hcl:7:9: error: Call to unknown function", "x.hcl:14:15: error: Invalid duration",
		"x.hcl:15:3: error: Missing argument", "x.hcl:16:5: error: Unsupported argument", "x.hcl:31:1: error: No transport",
		"x.hcl:35:11: error: Environment variable not set",
	}
	var got []string
	for _, line := range all.Lines() {
		parts := strings.SplitN(line, ": ", 4)
		got = append(got, strings.Join(parts[:min(3, len(parts))], ": "))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nin\n%s", strings.Join(got, "\n"), lines)
	}
	// The plugin's checksum is not known, so it must not be started.
	if kinds := slices.Sorted(maps.Keys(p.asked)); !slices.Equal(kinds, []string{"http", "stdio"}) || len(f.Plugins) > 0 {
		t.Errorf("asked the plugins %q; plugin blocks %+v", kinds, f.Plugins)
	}
}

// TestSoundPlugin: a mistake elsewhere keeps no plugin from being asked; one in
// its own block does.
func TestSoundPlugin(t *testing.T) {
	for block, asked := range map[string]bool{
		`command = "x"`:                      true,
		"command = \"x\"\n  sha256 = \"12\"": false,
		"":                                   false,
	} {
		p := &fakePlugins{}
		f, diags := Parse([]byte("log {\n  level = \"loud\"\n}\nplugin \"http\" {\n  "+block+"\n}\nserver \"x\" {\n  transport \"http\" {\n  }\n}\n"), "x.hcl", options())
		if f == nil || !diags.HasErrors() {
			t.Fatal(f, diags)
		}
		f.Resolve(t.Context(), p)
		if got := p.asked["http"] > 0; got != asked {
			t.Errorf("%q: asked is %v", block, got)
		}
	}
}

// TestOutermostFirst: where the outermost blocks are wrong, much else would
// seem to be.
func TestOutermostFirst(t *testing.T) {
	f, diags := Parse([]byte("varible \"x\" {\n}\nserver \"a\" {\n  transport \"stdio\" {\n    command = var.x\n  }\n}\n"), "x.hcl", options())
	if f != nil || diags.Len() != 1 {
		t.Errorf("%v %s", f, diags)
	}
}
