package config

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-host/hermes-host/shared/transportpb"
)

var update = flag.Bool("update", false, "rewrite the expected diagnostics under testdata")

// fakePlugins stands for the launcher: two kinds with schemas like those of
// the house, and scripted opinions.
type fakePlugins struct {
	mu      sync.Mutex
	asked   map[string]int  // Schema calls by kind
	seen    map[string]bool // configurations given to Validate
	broken  map[string]error
	opinion func(kind string, config []byte) []*transportpb.Diagnostic
}

func typ(s string) []byte { return []byte(s) }

var fakeSchemas = map[string][]*transportpb.Attribute{
	"stdio": {
		{Name: "command", Type: typ(`"string"`), Required: true, Doc: "The program to run."},
		{Name: "args", Type: typ(`["list","string"]`), Default: []byte(`[]`)},
		{Name: "env", Type: typ(`["map","string"]`), Default: []byte(`{}`), Sensitive: true},
		{Name: "cwd", Type: typ(`"string"`)},
	},
	"http": {
		{Name: "url", Type: typ(`"string"`), Required: true, Doc: "The server's MCP endpoint."},
		{Name: "headers", Type: typ(`["map","string"]`), Default: []byte(`{}`), Sensitive: true},
		{Name: "keep_alive", Type: typ(`"string"`), Default: []byte(`"15s"`)},
		{Name: "retries", Type: typ(`"number"`), Default: []byte(`3`)},
		{Name: "tls", Type: typ(`["object",{"ca_file":"string","pins":["list","string"],"verify":"bool"},["ca_file","pins","verify"]]`)},
	},
	"bad": {{Name: "x", Type: typ(`"strin"`)}},
}

func (p *fakePlugins) Schema(_ context.Context, kind string) ([]*transportpb.Attribute, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked == nil {
		p.asked = map[string]int{}
	}
	p.asked[kind]++
	if err := p.broken[kind]; err != nil {
		return nil, err
	}
	s, ok := fakeSchemas[kind]
	if !ok {
		return nil, fmt.Errorf("finding it: %w", &UnknownKindError{Kind: kind, Known: []string{"stdio", "http", "sse"}})
	}
	return s, nil
}

func (p *fakePlugins) Validate(_ context.Context, kind string, config []byte) ([]*transportpb.Diagnostic, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen == nil {
		p.seen = map[string]bool{}
	}
	p.seen[string(config)] = true
	if p.opinion == nil {
		return nil, nil
	}
	return p.opinion(kind, config), nil
}

// environ is the environment of all tests.
func environ(extra ...string) func(string) (string, bool) {
	m := map[string]string{
		"HOME":    "/home/ada",
		"TOKEN":   "s3cr3t-t0ken",
		"EMPTY":   "",
		"LITERAL": "${TOKEN}",
		"MIXED":   "x-${TOKEN}-y",
		"PORT":    "8080",
		"SHORT":   "abc",
		"ADDRESS": "not an address",
	}
	for _, e := range extra {
		k, v, _ := strings.Cut(e, "=")
		m[k] = v
	}
	return func(name string) (string, bool) { v, ok := m[name]; return v, ok }
}

func options(extra ...string) Options {
	return Options{Executable: "/opt/hermes/hermes-host", Version: "1.2.3", LookupEnv: environ(extra...)}
}

// load parses and resolves a text that must be right.
func load(t *testing.T, text string, p Plugins, opts Options) *Config {
	t.Helper()
	f, diags := Parse([]byte(text), "test.hcl", opts)
	if diags.HasErrors() {
		t.Fatalf("Parse:\n%s", diags)
	}
	c, diags := f.Resolve(t.Context(), p)
	if diags.HasErrors() {
		t.Fatalf("Resolve:\n%s", diags)
	}
	return c
}

// complaints parses and resolves a text that must be wrong.
func complaints(t *testing.T, text, name string, p Plugins, opts Options) string {
	t.Helper()
	f, diags := Parse([]byte(text), name, opts)
	out := diags.String()
	if f != nil {
		_, more := f.Resolve(t.Context(), p)
		if diags.HasErrors() {
			out = "" // they are among the others
		}
		out += more.String()
	}
	if out == "" {
		t.Fatal("nothing was reported")
	}
	return out
}

// opinionated complains about the values that the golden files ask it to.
func opinionated(kind string, config []byte) []*transportpb.Diagnostic {
	var c struct {
		Args    []string
		Command string
		Headers map[string]string
		URL     string
		TLS     *struct{ Pins []string }
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return []*transportpb.Diagnostic{{Summary: "bad JSON", Detail: err.Error()}}
	}
	attribute := func(s string) *transportpb.PathStep {
		return &transportpb.PathStep{Step: &transportpb.PathStep_Attribute{Attribute: s}}
	}
	key := func(s string) *transportpb.PathStep {
		return &transportpb.PathStep{Step: &transportpb.PathStep_Key{Key: s}}
	}
	index := func(i int) *transportpb.PathStep {
		return &transportpb.PathStep{Step: &transportpb.PathStep_Index{Index: int64(i)}}
	}
	var out []*transportpb.Diagnostic
	for i, a := range c.Args {
		if a == "bad" {
			out = append(out, &transportpb.Diagnostic{Summary: "Bad argument", Detail: "It is bad.", Path: []*transportpb.PathStep{attribute("args"), index(i)}})
		}
	}
	for _, k := range slices.Sorted(maps.Keys(c.Headers)) {
		if strings.Contains(k, " ") || strings.HasPrefix(c.Headers[k], "leak") {
			out = append(out, &transportpb.Diagnostic{Summary: "Invalid header", Detail: fmt.Sprintf("It says %q.", c.Headers[k]), Path: []*transportpb.PathStep{attribute("headers"), key(k)}})
		}
	}
	if strings.HasPrefix(c.URL, "ftp:") {
		out = append(out, &transportpb.Diagnostic{Summary: "Invalid URL", Detail: "It must be http or https.", Path: []*transportpb.PathStep{attribute("url")}})
	}
	if strings.HasPrefix(c.URL, "http:") {
		out = append(out, &transportpb.Diagnostic{Severity: transportpb.Diagnostic_SEVERITY_WARNING, Summary: "Not encrypted", Path: []*transportpb.PathStep{attribute("url")}})
	}
	if c.TLS != nil {
		for i, pin := range c.TLS.Pins {
			if pin == "short" {
				out = append(out, &transportpb.Diagnostic{Summary: "Short pin", Path: []*transportpb.PathStep{attribute("tls"), attribute("pins"), index(i)}})
			}
		}
	}
	if c.Command == "whole" {
		out = append(out, &transportpb.Diagnostic{Detail: "The whole block is wrong."})
	}
	return out
}

// TestDiagnostics compares what is said about each bad file under testdata
// with the text beside it.
func TestDiagnostics(t *testing.T) {
	files, err := filepath.Glob("testdata/*.hcl*")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	t.Chdir("testdata")
	for _, file := range files {
		file = filepath.Base(file)
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			opts := options("HERMES_VAR_count=many", "HERMES_VAR_list=[1,", "HERMES_VAR_port=http")
			p := &fakePlugins{opinion: opinionated, broken: map[string]error{
				"broken": errors.New("it exited with status 3; it was given s3cr3t-t0ken"),
			}}
			got := complaints(t, string(text), file, p, opts)
			for _, hide := range []string{"s3cr3t", "hunter2", "/home/ada"} {
				if strings.Contains(got, hide) {
					t.Errorf("the secret %q is shown", hide)
				}
			}
			// Absolute paths differ from machine to machine.
			if wd, err := os.Getwd(); err == nil {
				got = strings.ReplaceAll(got, wd, "DIR")
			}
			golden := strings.TrimSuffix(strings.TrimSuffix(file, ".json"), ".hcl") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != strings.ReplaceAll(string(want), "\r\n", "\n") {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}
