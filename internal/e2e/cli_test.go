package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	out := command(t, "", "version", "-o", "json")
	var info struct{ Version, Go, Platform string }
	if err := json.Unmarshal([]byte(out.stdout), &info); err != nil || out.code != 0 {
		t.Fatalf("exit code %d, %v in %s", out.code, err, out.stdout)
	}
	if info.Version == "" || info.Go == "" || info.Platform == "" {
		t.Errorf("something is missing in %s", out.stdout)
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"rnu"}, "did you mean run"},
		{[]string{"run", "--no-such-flag"}, "--no-such-flag"},
		{[]string{"run", "an argument"}, "an argument"},
		{[]string{"run", "-log-format", "xml"}, "auto, text or json"},
		{[]string{"run", "--log-level", "loud"}, "trace, debug, info, warn or error"},
		{[]string{"run", "--var", "novalue"}, "name=value"},
		{[]string{"call"}, "name one tool"},
		{[]string{"call", "x", "--json", "[1]"}, "JSON object"},
		{[]string{"tools", "-o", "yaml"}, `"text" or "json"`},
	} {
		out := command(t, t.TempDir(), tt.args...)
		if out.code != 2 || !strings.Contains(out.stderr, tt.want) || !strings.Contains(out.stderr, "--help") {
			t.Errorf("%q: exit code %d, want 2, and %q in:\n%s", tt.args, out.code, tt.want, out.stderr)
		}
		if out.stdout != "" {
			t.Errorf("%q printed %q on standard output", tt.args, out.stdout)
		}
	}
}

// Every command's help says what it does and shows how.
func TestHelp(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"run", "stdio", "validate", "plugins", "tools", "call", "demo-server", "version",
		"status", "reconnect", "park", "reload", "logs", "events"} {
		out := command(t, "", name, "-help")
		if out.code != 0 || !strings.Contains(out.stdout, "Examples:") || len(out.stdout) < 300 {
			t.Errorf("%s: exit code %d\n%s", name, out.code, out.stdout)
		}
	}
	if out := command(t, "", "completion", "bash"); out.code != 0 || !strings.Contains(out.stdout, "hermes-host") {
		t.Errorf("completion: exit code %d", out.code)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	out := command(t, "", "validate", "--config", writeConfig(t, demoServer("a")+demoServer("b")))
	if out.code != 0 || !strings.Contains(out.stdout, "configuration is valid: 2 servers") {
		t.Errorf("exit code %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	// The default configuration of the project.
	out = command(t, repository(), "validate")
	if out.code != 0 || !strings.Contains(out.stdout, "configuration is valid") {
		t.Errorf("config.hcl: exit code %d\n%s%s", out.code, out.stdout, out.stderr)
	}
}

func TestVariables(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, "variable \"command\" {}\n\nserver \"a\" {\n  transport \"stdio\" {\n    command = var.command\n  }\n}\n")
	if out := command(t, "", "validate", "-c", path, "-var", "command=true"); out.code != 0 {
		t.Errorf("with -var: exit code %d\n%s", out.code, out.stderr)
	}
	if out := command(t, "", "validate", "-c", path); out.code != 1 || !strings.Contains(out.stderr, "command") {
		t.Errorf("without: exit code %d\n%s", out.code, out.stderr)
	}
}

func TestPlugins(t *testing.T) {
	t.Parallel()
	out := command(t, t.TempDir(), "plugins", "-o", "json")
	var plugins []struct {
		Kind, Path, Version string
		Schema              []struct {
			Name     string
			Required bool
		}
	}
	if err := json.Unmarshal([]byte(out.stdout), &plugins); err != nil || out.code != 0 {
		t.Fatalf("exit code %d, %v in %s%s", out.code, err, out.stdout, out.stderr)
	}
	found := map[string]bool{}
	for _, p := range plugins {
		for _, a := range p.Schema {
			if a.Required && (p.Kind == "stdio" && a.Name == "command" || p.Kind != "stdio" && a.Name == "url") {
				found[p.Kind] = p.Version != "" && filepath.Dir(p.Path) != ""
			}
		}
	}
	for _, kind := range []string{"stdio", "http", "sse"} {
		if !found[kind] {
			t.Errorf("%s is missing or incomplete in %s", kind, out.stdout)
		}
	}
	if out := command(t, t.TempDir(), "plugins"); out.code != 0 || !strings.Contains(out.stdout, "command") {
		t.Errorf("as text: exit code %d\n%s%s", out.code, out.stdout, out.stderr)
	}
}

func TestToolsAndCall(t *testing.T) {
	t.Parallel()
	host := run(t, demoServer("demo"), "demo")
	at := func(args ...string) output {
		t.Helper()
		return command(t, "", append(args, "--url", host.url)...)
	}

	if out := at("tools"); out.code != 0 || !strings.Contains(out.stdout, "demo__echo") {
		t.Errorf("tools: exit code %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	var tools []struct{ Name string }
	if out := at("tools", "-o", "json"); json.Unmarshal([]byte(out.stdout), &tools) != nil || len(tools) != 7 {
		t.Errorf("tools -o json: exit code %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	if out := command(t, "", "tools", "--url", host.url+"/demo"); !strings.Contains(out.stdout, "\necho") && !strings.HasPrefix(out.stdout, "add") {
		t.Errorf("tools of one server: exit code %d\n%s%s", out.code, out.stdout, out.stderr)
	}

	// The schema decides how a value is read.
	if out := at("call", "demo__echo", "--arg", "text=7"); out.code != 0 || out.stdout != "7\n" {
		t.Errorf("echo: exit code %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	if out := at("call", "demo__add", "--arg", "numbers=[9007199254740993,1]", "-o", "json"); out.code != 0 ||
		!strings.Contains(out.stdout, `{"sum":9007199254740994}`) {
		t.Errorf("add: exit code %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	file := filepath.Join(t.TempDir(), "arguments.json")
	if err := os.WriteFile(file, []byte(`{"numbers":[1,2]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := at("call", "demo__add", "--json", "@"+file); out.code != 0 || out.stdout != "3\n" {
		t.Errorf("add from a file: exit code %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	if out := at("call", "demo__slow", "--arg", "seconds=0.3"); out.code != 0 || !strings.Contains(out.stderr, "%") {
		t.Errorf("slow shows no progress: exit code %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	if out := at("call", "demo__time", "--arg", "zone=Atlantis"); out.code != 3 || !strings.Contains(out.stdout, "Atlantis") {
		t.Errorf("a tool's error: exit code %d, want 3\n%s%s", out.code, out.stdout, out.stderr)
	}
	if out := at("call", "demo__none"); out.code != 1 || !strings.Contains(out.stderr, "demo__none") {
		t.Errorf("no such tool: exit code %d, want 1\n%s%s", out.code, out.stdout, out.stderr)
	}
	if out := command(t, "", "tools", "--url", "http://127.0.0.1:1/mcp"); out.code != 4 || !strings.Contains(out.stderr, "127.0.0.1:1") {
		t.Errorf("no host: exit code %d, want 4\n%s%s", out.code, out.stdout, out.stderr)
	}
}
