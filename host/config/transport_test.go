package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestRangeOf(t *testing.T) {
	c := load(t, `locals {
  env = { SHARED = "1" }
}

server "x" {
  transport "stdio" {
    command = "x"
    args = [
      "a",
      "b",
    ]
    env = local.env
  }
}`, &fakePlugins{}, options())
	s := c.Servers[0]
	for _, tt := range []struct {
		path []any
		want string
	}{
		{nil, "test.hcl:6:3"},
		{[]any{"command"}, "test.hcl:7:5"},
		{[]any{"args"}, "test.hcl:8:5"},
		{[]any{"args", 1}, "test.hcl:10:7"},
		{[]any{"args", 9}, "test.hcl:8:5"},
		{[]any{"args", "x"}, "test.hcl:8:5"},
		{[]any{"env", "SHARED"}, "test.hcl:2:20"},
		{[]any{"env", "NONE"}, "test.hcl:12:5"},
		{[]any{"cwd"}, "test.hcl:6:3"},
		{[]any{3}, "test.hcl:6:3"},
	} {
		if got := s.RangeOf(tt.path); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.path, got, tt.want)
		}
	}
	if s.Where() != "test.hcl:5:1" || (Server{}).Where() != "" || (Server{}).RangeOf(nil) != "" {
		t.Error(s.Where())
	}
}

// TestSecretsStayHidden: a marked value reaches the plugin, and nobody else,
// wherever it is in a value.
func TestSecretsStayHidden(t *testing.T) {
	c := load(t, `
variable "v" {
  sensitive = true
  type      = object({ user = string, pass = string })
  default   = { user = "ada-lovelace", pass = "hunter2-hunter2" }
}
server "x" {
  transport "http" {
    url     = "https://x.example/${base64encode(env("TOKEN"))}"
    retries = tonumber(env("PORT"))
    tls     = { ca_file = file("testdata/secret.pem"), pins = ["plain", var.v.pass] }
  }
}
server "y" {
  transport "stdio" {
    command = "x"
    args    = ["plain", sensitive("literal-secret"), "--x=${env("TOKEN")}"]
    env     = { LEVEL = "info", KEY = "a-literal-key" }
  }
}`, &fakePlugins{}, options())
	x, y := c.Servers[0].Transport, c.Servers[1].Transport
	for _, want := range []string{`"ca_file":"-----`, `"hunter2-hunter2"`, `"retries":8080`, `example/czNjcjN0`} {
		if !strings.Contains(string(x.Config), want) {
			t.Errorf("the plugin does not get %s: %s", want, x.Config)
		}
	}
	if got, want := string(x.Display), `{"headers":{},"keep_alive":"15s","retries":"(sensitive)","tls":{"ca_file":"(sensitive)","pins":["plain","(sensitive)"],"verify":null},"url":"(sensitive)"}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := string(y.Display), `{"args":["plain","(sensitive)","(sensitive)"],"command":"x","cwd":null,"env":{"KEY":"(sensitive)","LEVEL":"(sensitive)"}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if fmt.Sprint(x.Sensitive, y.Sensitive) != "[headers retries tls url] [args env]" {
		t.Error(x.Sensitive, y.Sensitive)
	}
	got := c.Redact("czNjcjN0LXQwa2Vu ada-lovelace hunter2-hunter2 literal-secret s3cr3t-t0ken a-literal-key level=info plain")
	if want := "(sensitive) (sensitive) (sensitive) (sensitive) (sensitive) (sensitive) level=info plain"; got != want {
		t.Errorf("Redact: %s", got)
	}
}

func TestEqual(t *testing.T) {
	const base = `server "x" {
  transport "stdio" {
    command = "run"
    env     = { A = "1", B = "2" }
  }
}`
	first := load(t, base, &fakePlugins{}, options()).Servers[0]
	for _, tt := range []struct {
		text string
		want bool
	}{
		{base, true},
		{"# moved\n\n" + base, true},
		{`locals { e = { B = "2" } }
server "x" {
  call_wait = "2000ms"
  transport "stdio" {
    env     = merge(local.e, { A = "1" })
    command = lower("RUN")
    args    = []
  }
}`, true},
		{strings.Replace(base, `"2"`, `"3"`, 1), false},
		{strings.Replace(base, `transport`, "isolate = false\n transport", 1), false},
		{strings.Replace(base, `transport`, "tools { deny = [\"x\"] }\n transport", 1), false},
		{strings.Replace(base, `transport`, "enabled = false\n transport", 1), false},
	} {
		if got := load(t, tt.text, &fakePlugins{}, options()).Servers[0]; got.Equal(first) != tt.want || first.Equal(got) != tt.want {
			t.Errorf("Equal is not %v for:\n%s", tt.want, tt.text)
		}
	}
	faulty := first
	faulty.Fault = errors.New("x")
	if faulty.Equal(faulty) || first.Equal(faulty) {
		t.Error("a server with a fault equals something")
	}
}

// TestPluginFault: a plugin that does not work costs its servers, not the
// configuration, and can be asked again.
func TestPluginFault(t *testing.T) {
	f, diags := Parse([]byte(`
server "well" {
  transport "stdio" { command = "x" }
}
server "ill" {
  transport "http" { url = "https://${env("TOKEN")}" }
}`), "test.hcl", options())
	if diags.Len() > 0 {
		t.Fatal(diags)
	}
	p := &fakePlugins{broken: map[string]error{"http": errors.New("exit status 3 near s3cr3t-t0ken")}}
	c, diags := f.Resolve(t.Context(), p)
	if c == nil || diags.Fatal() || !diags.HasErrors() {
		t.Fatalf("%v %s", c, diags)
	}
	if c.Servers[0].Fault != nil || c.Servers[0].Transport.Config == nil {
		t.Error("the healthy server is hurt")
	}
	if ill := c.Servers[1]; ill.Fault == nil || ill.Transport.Config != nil || ill.Transport.Kind != "http" || !strings.Contains(ill.Fault.Error(), "exit status 3") {
		t.Errorf("%+v", ill)
	}
	p.broken = nil
	s, diags := f.ResolveServer(t.Context(), p, "ill")
	if diags.Len() > 0 || s.Fault != nil || !strings.Contains(string(s.Transport.Config), "https://s3cr3t-t0ken") {
		t.Errorf("%+v %s", s, diags)
	}
	if _, diags := f.ResolveServer(t.Context(), p, "none"); !diags.HasErrors() || !strings.Contains(diags.String(), `no server "none"`) {
		t.Error(diags)
	}
}

func TestDisabledIsNotResolved(t *testing.T) {
	p := &fakePlugins{}
	c := load(t, `server "off" {
  enabled = false
  transport "nowhere" { token = env("NOT_SET_AT_ALL") }
}`, p, options())
	if len(c.Servers) != 1 || c.Servers[0].Enabled || len(p.asked) > 0 {
		t.Errorf("%+v %v", c.Servers, p.asked)
	}
}

// TestManyServers: each kind is described once, whatever the number of
// servers, and diagnostics come in the order of the file.
func TestManyServers(t *testing.T) {
	var text strings.Builder
	const n = 100
	for i := range n {
		fmt.Fprintf(&text, "server \"s%d\" {\n  transport \"stdio\" {\n    command = \"c%d\"\n    args = [\"bad\"]\n    env = { K = \"literal-key-%d\" }\n  }\n}\n", i, i, i)
	}
	f, diags := Parse([]byte(text.String()), "test.hcl", options())
	if diags.Len() > 0 {
		t.Fatal(diags)
	}
	p := &fakePlugins{opinion: opinionated}
	c, diags := f.Resolve(t.Context(), p)
	if c != nil || diags.Len() != n || p.asked["stdio"] != 1 || len(p.seen) != n {
		t.Fatalf("%d diagnostics, %v, %d validated", diags.Len(), p.asked, len(p.seen))
	}
	for i, line := range diags.Lines() {
		if want := fmt.Sprintf("test.hcl:%d:13: error: Bad argument: It is bad.", 7*i+4); line != want {
			t.Fatalf("line %d: %s, want %s", i, line, want)
		}
	}
	if got, want := diags.Err().Error(), "test.hcl:4:13: error: Bad argument: It is bad. (and 99 more)"; got != want {
		t.Errorf("Err: %s", got)
	}
}

func TestErr(t *testing.T) {
	if (Diagnostics{}).Err() != nil || (Diagnostics{}).String() != "" || (Diagnostics{}).Fatal() {
		t.Error("nothing is something")
	}
	_, diags := Parse([]byte("x = 1"), "test.hcl", options())
	if got, want := diags.Err().Error(), `test.hcl:1:1: error: Unsupported argument: An argument named "x" is not expected here.`; got != want {
		t.Errorf("got %s", got)
	}
}
