package e2e

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBadConfiguration gives run and validate files with one mistake each: one
// clear message that names the place, and exit code 1.
func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, config string
		want         []string // all on stderr
	}{
		{
			"syntax error",
			"server \"a\" {\n  transport \"stdio\" {\n    command = \n  }\n}\n",
			[]string{"config.hcl", "3"},
		},
		{
			"unknown attribute in a transport block",
			"server \"a\" {\n  transport \"stdio\" {\n    comand = \"true\"\n  }\n}\n",
			[]string{"config.hcl", "3", "comand", "command"},
		},
		{
			"wrong type in a transport block",
			"server \"a\" {\n  transport \"stdio\" {\n    command = \"true\"\n    args    = 7\n  }\n}\n",
			[]string{"config.hcl", "4", "args"},
		},
		{
			"missing attribute of a transport block",
			"server \"a\" {\n  transport \"http\" {\n  }\n}\n",
			[]string{"config.hcl", "2", "url"},
		},
		{
			"value that the plugin refuses",
			"server \"a\" {\n  transport \"http\" {\n    url = \"ftp://127.0.0.1/\"\n  }\n}\n",
			[]string{"config.hcl", "3", "url"},
		},
		{
			"unset environment variable",
			"server \"a\" {\n  transport \"http\" {\n    url     = \"http://127.0.0.1:1/\"\n    headers = { Authorization = env(\"HERMES_TEST_UNSET\") }\n  }\n}\n",
			[]string{"config.hcl", "4", "HERMES_TEST_UNSET"},
		},
		{
			"no such kind of transport",
			"server \"a\" {\n  transport \"carrier_pigeon\" {\n  }\n}\n",
			[]string{"config.hcl", "2", "carrier_pigeon"},
		},
		{
			"two servers of one name",
			demoServer("a") + demoServer("a"),
			[]string{"config.hcl", "7", `"a"`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := writeConfig(t, tt.config)
			for _, args := range [][]string{
				{"validate", "--config", path},
				{"run", "--config", path, "--listen", "127.0.0.1:0"},
				{"stdio", "--config", path},
			} {
				out := command(t, t.TempDir(), args...)
				if out.code != 1 {
					t.Errorf("%s: exit code %d, want 1", args[0], out.code)
				}
				for _, want := range tt.want {
					if !strings.Contains(out.stderr, want) {
						t.Errorf("%s: %q is missing in:\n%s", args[0], want, out.stderr)
					}
				}
			}
		})
	}
}

// Where no file is, the message says where one was looked for.
func TestMissingConfiguration(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "nowhere.hcl")
	out := command(t, t.TempDir(), "run", "--config", missing)
	if out.code != 1 || !strings.Contains(out.stderr, missing) {
		t.Errorf("a named file: exit code %d\n%s", out.code, out.stderr)
	}
	out = command(t, t.TempDir(), "run")
	if out.code != 1 || !strings.Contains(out.stderr, "--config") || !strings.Contains(out.stderr, "config.hcl") {
		t.Errorf("no file named: exit code %d\n%s", out.code, out.stderr)
	}
}

// A command that another program starts does not run what the directory of
// that program's choosing says.
func TestStdioIgnoresTheWorkingDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Dir(writeConfig(t, demoServer("stranger")))
	out := command(t, dir, "stdio")
	if out.code != 1 || !strings.Contains(out.stderr, "no configuration file") {
		t.Errorf("exit code %d\n%s", out.code, out.stderr)
	}
}

// A port in use ends the host before it starts anything.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	address := listener.Addr().String()
	out := command(t, t.TempDir(), "run", "--config", writeConfig(t, demoServer("demo")), "--listen", address)
	if out.code != 1 || !strings.Contains(out.stderr, address) || !strings.Contains(out.stderr, "in use") {
		t.Errorf("exit code %d\n%s", out.code, out.stderr)
	}
}

// TestOneBadServer runs servers that cannot work beside one that does: they
// park with the reason, and the good one is not disturbed.
func TestOneBadServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := filepath.Join(dir, "no-plugin")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho I am no plugin\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	host := run(t, `
server "nocommand" {
  transport "stdio" {
    command = "/nowhere/hermes-no-such-command"
  }
}

plugin "odd" {
  command = "`+script+`"
}

server "noplugin" {
  transport "odd" {
    anything = 1
  }
}

plugin "gone" {
  command = "/nowhere/hermes-no-such-plugin"
}

server "goneplugin" {
  transport "gone" {
    anything = 1
  }
}
`+demoServer("good"), "good")
	for server, want := range map[string]string{
		"nocommand":  "hermes-no-such-command",
		"noplugin":   "no-plugin",
		"goneplugin": "hermes-no-such-plugin",
	} {
		parked, _ := host.await(0, server+" to be parked", func(l line) bool { return l.Server == server && l.State == "parked" })
		if !strings.Contains(parked.Error, want) {
			t.Errorf("%s parked with the error %q, want %q in it", server, parked.Error, want)
		}
	}
	session := host.connect("", nil)
	if got := callText(t, session, "good__echo", map[string]any{"text": "undisturbed"}); got != "undisturbed" {
		t.Errorf("echo answered %q", got)
	}
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools.Tools {
		if !strings.HasPrefix(tool.Name, "good__") {
			t.Errorf("%s is listed", tool.Name)
		}
	}
}
