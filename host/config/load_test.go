package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestDefaults(t *testing.T) {
	c := load(t, `server "x" {
  transport "stdio" { command = "run" }
}`, &fakePlugins{}, options())
	want := Server{
		Name: "x", Enabled: true, Prefix: "x",
		CallWait: 2 * time.Second, MaxMessage: 64 << 20,
		Session: "shared", IdleTimeout: 30 * time.Minute, MaxSessions: 64, Capabilities: []string{"elicitation.form", "elicitation.url", "sampling"},
		Timeouts:  Timeouts{Connect: 30 * time.Second, Call: 5 * time.Minute, List: 30 * time.Second, Health: 5 * time.Second, Close: 10 * time.Second},
		Retry:     Retry{Base: time.Second, Max: time.Minute, Budget: 5},
		Revive:    Revive{Min: time.Minute, Max: 5 * time.Minute},
		CrashLoop: CrashLoop{Deaths: 10, Window: 5 * time.Minute, Proven: 30 * time.Second},
		Breaker:   Breaker{Threshold: 3, Cooldown: time.Minute},
		Transport: Transport{
			Kind:      "stdio",
			Config:    []byte(`{"args":[],"command":"run","cwd":null,"env":{}}`),
			Display:   []byte(`{"args":[],"command":"run","cwd":null,"env":{}}`),
			Sensitive: []string{"env"},
		},
	}
	if len(c.Servers) != 1 || !c.Servers[0].Equal(want) {
		t.Errorf("got  %+v\nwant %+v", c.Servers, want)
	}
	if c.Listen.Address != "127.0.0.1:7717" || c.Listen.MaxSessions != 10000 || c.Listen.MaxRequestBytes != 64<<20 ||
		c.Listen.SessionIdleTimeout != 30*time.Minute || c.Listen.Where() != "" {
		t.Errorf("listen: %+v", c.Listen)
	}
	if c.Log != (Log{Level: "info", Format: "auto"}) {
		t.Errorf("log: %+v", c.Log)
	}
}

func TestEmptyFileIsValid(t *testing.T) {
	for name, text := range map[string]string{"x.hcl": "", "x.hcl.json": "{}"} {
		f, diags := Parse([]byte(text), name, options())
		if diags.Len() > 0 {
			t.Fatal(diags)
		}
		c, diags := f.Resolve(t.Context(), &fakePlugins{})
		if diags.Len() > 0 || len(c.Servers) != 0 {
			t.Error(c, diags)
		}
	}
}

const everything = `
variable "token" {
  type        = string
  sensitive   = true
  description = "For the tickets."
  default     = "hunter2-hunter2"
}

locals {
  # Out of order on purpose.
  url  = "https://${local.host}/mcp"
  host = "mcp.example.com"
}

listen "http" {
  address              = "0.0.0.0:8080"
  token                = env("HERMES_TOKEN")
  allowed_origins      = ["https://app.example.com"]
  allowed_hosts        = ["mcp.example.com"]
  session_idle_timeout = "1h"
  max_sessions         = 7
  max_request_bytes    = "1MiB"
}

endpoint "coding" {
  servers = ["tickets"]
  tools { allow = ["tickets__*"] }
  resources { deny = ["file:*"] }
}

log {
  level  = "debug"
  format = "json"
}

plugin "ws" {
  command = "./bin/ws"
  args    = ["-v"]
  sha256  = "sha256:0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef"
  env     = { A = "b", GONE = null }
}

server "tickets" {
  enabled     = true
  isolate     = false
  prefix      = ""
  call_wait   = "3s"
  keep_alive  = "1m"
  max_message = 8192
  protocol    = "2025-11-25"

  session      = "client"
  idle_timeout = "5m"
  max_sessions = 7
  timeouts {
    connect = "1s"
    call    = "2s"
    list    = "3s"
    health  = "4s"
    close   = "5s"
  }
  retry {
    base   = "2s"
    max    = "3s"
    budget = 2
  }
  revive {
    min = "4s"
    max = "5s"
  }
  crash_loop {
    deaths = 3
    window = "1m"
    proven = "10s"
  }
  breaker {
    threshold = 4
    cooldown  = "6s"
  }
  tools {
    allow  = ["get_*"]
    deny   = ["get_secret"]
    rename = { get_a = "fetch_a" }
    describe = { get_b = "Better." }
  }
  resources {
    deny = ["file:*"]
  }
  prompts {
    allow = ["*"]
  }
  transport "http" {
    url     = local.url
    retries = "5"
    headers = {
      Authorization = "Bearer ${var.token}"
      X-Plain       = "on"
      X-None        = false ? "x" : null
    }
    tls = { pins = ["p"] }
  }
}
`

func TestEverything(t *testing.T) {
	f, diags := Parse([]byte(everything), "/etc/hermes/config.hcl", options("HERMES_TOKEN=0123456789abcdef"))
	if diags.Len() > 0 {
		t.Fatal(diags)
	}
	c, diags := f.Resolve(t.Context(), &fakePlugins{})
	if diags.Len() > 0 {
		t.Fatal(diags)
	}
	no := false
	want := Server{
		Name: "tickets", Enabled: true, Isolate: &no, CallWait: 3 * time.Second, KeepAlive: time.Minute, MaxMessage: 8192, Protocol: "2025-11-25",
		Session: "client", IdleTimeout: 5 * time.Minute, MaxSessions: 7, Capabilities: []string{"elicitation.form", "elicitation.url", "sampling"},
		Timeouts:  Timeouts{Connect: time.Second, Call: 2 * time.Second, List: 3 * time.Second, Health: 4 * time.Second, Close: 5 * time.Second},
		Retry:     Retry{Base: 2 * time.Second, Max: 3 * time.Second, Budget: 2},
		Revive:    Revive{Min: 4 * time.Second, Max: 5 * time.Second},
		CrashLoop: CrashLoop{Deaths: 3, Window: time.Minute, Proven: 10 * time.Second},
		Breaker:   Breaker{Threshold: 4, Cooldown: 6 * time.Second},
		Tools:     Filter{Allow: []string{"get_*"}, Deny: []string{"get_secret"}, Rename: map[string]string{"get_a": "fetch_a"}, Describe: map[string]string{"get_b": "Better."}},
		Resources: Filter{Deny: []string{"file:*"}},
		Prompts:   Filter{Allow: []string{"*"}},
		Transport: Transport{
			Kind: "http",
			Config: []byte(`{"headers":{"Authorization":"Bearer hunter2-hunter2","X-Plain":"on"},"keep_alive":"15s","retries":5,` +
				`"tls":{"ca_file":null,"pins":["p"],"verify":null},"url":"https://mcp.example.com/mcp"}`),
			Display: []byte(`{"headers":{"Authorization":"(sensitive)","X-Plain":"(sensitive)"},"keep_alive":"15s","retries":5,` +
				`"tls":{"ca_file":null,"pins":["p"],"verify":null},"url":"https://mcp.example.com/mcp"}`),
			Sensitive: []string{"headers"},
		},
	}
	if got := c.Servers[0]; !got.Equal(want) {
		t.Errorf("got  %+v\n%s\n%s\nwant %+v", got, got.Transport.Config, got.Transport.Display, want)
	}
	wantListen := Listen{
		Address: "0.0.0.0:8080", Token: "0123456789abcdef", AllowedOrigins: []string{"https://app.example.com"},
		AllowedHosts: []string{"mcp.example.com"}, SessionIdleTimeout: time.Hour, MaxSessions: 7, MaxRequestBytes: 1 << 20,
		at: c.Listen.at,
	}
	if !reflect.DeepEqual(c.Listen, wantListen) {
		t.Errorf("listen: %+v", c.Listen)
	}
	if c.Log != (Log{"debug", "json"}) || f.Log() != c.Log || f.Listen().Address != c.Listen.Address {
		t.Errorf("log: %+v", c.Log)
	}
	e := Endpoint{Name: "coding", Servers: []string{"tickets"}, Tools: Filter{Allow: []string{"tickets__*"}}, Resources: Filter{Deny: []string{"file:*"}}}
	if len(c.Endpoints) != 1 || !c.Endpoints[0].Equal(e) {
		t.Errorf("endpoints: %+v", c.Endpoints)
	}
	if filepath.Separator == '/' {
		p := Plugin{
			Kind: "ws", Command: "/etc/hermes/bin/ws", Args: []string{"-v"}, Env: map[string]string{"A": "b"},
			SHA256: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		}
		if len(c.Plugins) != 1 || !c.Plugins[0].Equal(p) {
			t.Errorf("plugins: %+v", c.Plugins)
		}
	}
	if got := c.Redact("Bearer hunter2-hunter2 and 0123456789abcdef"); got != "(sensitive) and (sensitive)" {
		t.Errorf("Redact: %q", got)
	}
}

func TestJSONMeansTheSame(t *testing.T) {
	native := `
variable "name" { default = "X" }
server "a" {
  call_wait = "3s"
  timeouts { call = "1s" }
  transport "http" {
    url     = "https://x.example/${lower(var.name)}"
    headers = { A = env("TOKEN") }
  }
}
server "b" {
  enabled = false
  transport "stdio" { command = "y" }
}`
	inJSON := `{
  "variable": {"name": {"default": "X"}},
  "server": {
    "a": {
      "call_wait": "3s",
      "timeouts": {"call": "1s"},
      "transport": {"http": {"url": "https://x.example/${lower(var.name)}", "headers": {"A": "${env(\"TOKEN\")}"}}}
    },
    "b": {"enabled": false, "transport": {"stdio": {"command": "y"}}}
  }
}`
	var got []*Config
	for name, text := range map[string]string{"c.hcl": native, "c.hcl.json": inJSON} {
		f, diags := Parse([]byte(text), name, options())
		if diags.Len() > 0 {
			t.Fatal(diags)
		}
		c, diags := f.Resolve(t.Context(), &fakePlugins{})
		if diags.Len() > 0 {
			t.Fatal(diags)
		}
		got = append(got, c)
	}
	for i := range got[0].Servers {
		if !got[0].Servers[i].Equal(got[1].Servers[i]) {
			t.Errorf("%+v differs from %+v", got[0].Servers[i], got[1].Servers[i])
		}
	}
}

func TestLoadMissingFile(t *testing.T) {
	dir := t.TempDir()
	for path, what := range map[string]string{
		filepath.Join(dir, "none.hcl"): "does not exist",
		dir:                            "is a directory",
	} {
		f, diags := Load(path, options())
		want := "error: Configuration not readable: " + path + " " + what +
			". Name a configuration file with --config, or write one: a server block is all it takes."
		if got := strings.Join(diags.Lines(), "\n"); f != nil || strings.TrimPrefix(got, ": ") != want {
			t.Errorf("%s: %v %s", path, f, got)
		}
	}
	big := filepath.Join(dir, "big.hcl")
	if err := os.WriteFile(big, []byte(strings.Repeat("#\n", maxConfig)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, diags := Load(big, options()); !strings.Contains(diags.String(), "at most 1MiB") {
		t.Error(diags)
	}
}

// TestPrecedence: --var before HERMES_VAR_x before the default, and an empty
// HERMES_VAR_x counts as not set.
func TestPrecedence(t *testing.T) {
	const text = `
variable "v" { default = "default" }
variable "n" {
  type    = number
  default = 1
}
variable "l" { default = ["a"] }
variable "o" {
  type = object({ a = string, b = optional(number, 7) })
  default = { a = "x" }
}
server "x" {
  transport "stdio" {
    command = var.v
    args    = concat([tostring(var.n + 1)], var.l, ["${var.o.a}${var.o.b}"])
  }
}`
	for _, tt := range []struct {
		env  []string
		vars map[string]string
		want string
	}{
		{nil, nil, `{"args":["2","a","x7"],"command":"default"`},
		{[]string{"HERMES_VAR_v=env", "HERMES_VAR_n=4"}, nil, `{"args":["5","a","x7"],"command":"env"`},
		{[]string{"HERMES_VAR_v="}, nil, `{"args":["2","a","x7"],"command":"default"`},
		{[]string{"HERMES_VAR_v=env"}, map[string]string{"v": "flag"}, `{"args":["2","a","x7"],"command":"flag"`},
		{nil, map[string]string{"v": ""}, `{"args":["2","a","x7"],"command":""`},
		{nil, map[string]string{"l": `["p", "q"]`, "o": `{ a = "y", b = 8 }`}, `{"args":["2","p","q","y8"],"command":"default"`},
	} {
		opts := options(tt.env...)
		opts.Vars = tt.vars
		c := load(t, text, &fakePlugins{}, opts)
		if got := string(c.Servers[0].Transport.Config); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%v %v: %s", tt.env, tt.vars, got)
		}
	}
	opts := options()
	opts.Vars = map[string]string{"w": "1"}
	if got := complaints(t, text, "x.hcl", &fakePlugins{}, opts); !strings.Contains(got, `declares none of that name. Did you mean`) {
		t.Error(got)
	}
}

func TestFunctions(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"token": "from-file\n", "big": strings.Repeat("x", maxFile+1), "binary": "\xff\xfe"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	eval := func(expr string) (string, string) {
		f, diags := Parse(fmt.Appendf(nil, "server \"x\" {\n  transport \"stdio\" {\n    command = %s\n  }\n}", expr), filepath.Join(dir, "c.hcl"), options())
		if diags.Len() > 0 {
			return "", diags.String()
		}
		c, diags := f.Resolve(t.Context(), &fakePlugins{})
		if diags.Len() > 0 {
			return "", diags.String()
		}
		_, rest, _ := strings.Cut(string(c.Servers[0].Transport.Config), `"command":"`)
		value, _, _ := strings.Cut(rest, `"`)
		return value, ""
	}
	for expr, want := range map[string]string{
		`env("TOKEN")`:                    "s3cr3t-t0ken",
		`env("NONE", "else")`:             "else",
		`env("EMPTY", "else")`:            "else",
		`try(env("NONE"), "else")`:        "else",
		`can(env("NONE")) ? "y" : "n"`:    "n",
		`trimspace(file("token"))`:        "from-file",
		`trimspace(file("./token"))`:      "from-file",
		`pathexpand("~/x")`:               filepath.Join("/home/ada", "x"),
		`pathexpand("~ada/x")`:            "~ada/x",
		`abspath("a/../b")`:               filepath.Join(dir, "b"),
		`basename("/a/b.c")`:              "b.c",
		`dirname("/a/b.c")`:               filepath.Dir("/a/b.c"),
		`base64encode("hé")`:              "aMOp",
		`base64decode("aMOp")`:            "hé",
		`jsondecode("{\"a\":[1]}").a[0]`:  "1",
		`jsonencode([1])`:                 "[1]",
		`hermes.executable`:               "/opt/hermes/hermes-host",
		`hermes.version`:                  "1.2.3",
		`hermes.config_dir`:               dir,
		`sensitive("x")`:                  "x",
		`coalesce(null, "x")`:             "x",
		`format("%s-%d", "a", 3)`:         "a-3",
		`join("+", [for x in ["a"] : x])`: "a",
		`merge({a="1"}, {a="2"}).a`:       "2",
		`lookup({a="1"}, "b", "none")`:    "none",
	} {
		if got, problem := eval(expr); got != want {
			t.Errorf("%s = %q, want %q\n%s", expr, got, want, problem)
		}
	}
	for expr, part := range map[string]string{
		`env("NONE")`:             "NONE is not set",
		`env("EMPTY")`:            "EMPTY is set but empty",
		`env("")`:                 "cannot be empty",
		`env("A", "b", "c")`:      "at most one default",
		`file("none")`:            "does not exist",
		`file(".")`:               "is a directory",
		`file("big")`:             "at most 1MiB",
		`file("binary")`:          "not a UTF-8 text",
		`base64decode("?")`:       "not the base64",
		`uper("x")`:               `Did you mean "upper"?`,
		`base64decode("//79/Q`:    "Unterminated",
		`sensitive("x").y`:        "Unsupported attribute",
		`abspath(["a"])`:          "string required",
		`env(env("NONE_EITHER"))`: "NONE_EITHER is not set",
	} {
		if got, problem := eval(expr); !strings.Contains(problem, part) {
			t.Errorf("%s: got %q\n%s", expr, got, problem)
		}
	}
}

// TestDeepNesting: HCL's parser would overflow the stack and end the process.
func TestDeepNesting(t *testing.T) {
	repeat := func(s string) string { return strings.Repeat(s, 6_000/len(s)) }
	for _, in := range []string{"[", "(", "{a=", "f(", "!", "-", "1+", "1?1:", "x[0]", "\"${", "%{if a}", "a.0."} {
		for name, text := range map[string]string{
			"x.hcl":  "locals {\n  a = " + repeat(in),
			"x.json": `{"locals": {"a": "${` + strings.ReplaceAll(repeat(in), `"`, `\"`) + `"}}`,
		} {
			f, diags := Parse([]byte(text), name, options())
			if f != nil || !strings.Contains(diags.String(), "Nested too deeply") {
				t.Errorf("%s with %q: %s", name, in, diags.Lines())
			}
		}
	}
	for name, text := range map[string]string{"x.hcl": repeat("a {\n"), "x.json": repeat("["), "y.json": repeat(`{"a":`)} {
		if f, diags := Parse([]byte(text), name, options()); f != nil || !strings.Contains(diags.String(), "Nested too deeply") {
			t.Errorf("%s: %s", name, diags)
		}
	}
	opts := options()
	opts.Vars = map[string]string{"l": repeat("[")}
	if _, diags := Parse([]byte("variable \"l\" {\n  type = list(string)\n}\n"), "x.hcl", opts); !strings.Contains(diags.String(), "no expression of HCL") {
		t.Error(diags)
	}
	// Large is not deep.
	text := "locals {\n  a = [" + strings.Repeat("1, -1, \"a${1+1}\",\n", 1000) + "]\n  b = <<E\n" + strings.Repeat("x ${1} - [\n", 2000) + "E\n}\n"
	if _, diags := Parse([]byte(text), "x.hcl", options()); diags.HasErrors() {
		t.Error(diags.Lines()[0])
	}
}
