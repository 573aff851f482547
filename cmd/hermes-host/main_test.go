package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDoubleDashes(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"run -config x -log-format=json", "run --config x --log-format=json"},
		{"run -c x --var a=b", "run -c x --var a=b"},
		{"tools -o json -url u", "tools -o json --url u"},
		{"tools -ojson", "tools -ojson"},
		{"run -help", "run --help"},
		{"call x -- -json y", "call x -- -json y"},
		{"run -nosuchflag", "run -nosuchflag"},
		{"call x --json -", "call x --json -"},
	} {
		got := strings.Join(doubleDashes(newRoot(), strings.Fields(tt.in)), " ")
		if got != tt.want {
			t.Errorf("%q became %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestClientURL(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:7717": "http://127.0.0.1:7717/mcp",
		"localhost:80":   "http://localhost:80/mcp",
		":7717":          "http://127.0.0.1:7717/mcp",
		"0.0.0.0:7717":   "http://127.0.0.1:7717/mcp",
		"[::]:7717":      "http://[::1]:7717/mcp",
		"[::1]:7717":     "http://[::1]:7717/mcp",
	} {
		if got := clientURL(address); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}

func TestCheckListen(t *testing.T) {
	for listen, ok := range map[string]bool{"": true, "127.0.0.1:0": true, "[::1]:1": true, ":1": true, "7717": false} {
		if err := checkListen(listen); (err == nil) != ok {
			t.Errorf("%q: %v", listen, err)
		}
	}
}

// The result is kept as it came, whatever it came in.
func TestRawAnswers(t *testing.T) {
	const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`
	const answer = `{"jsonrpc":"2.0","id":1,"result":{"b": 9007199254740993, "a":1}}`
	const want = `{"b": 9007199254740993, "a":1}`
	for name, r := range map[string]*rawAnswers{
		"json":              {kind: "application/json", body: bytes.NewBufferString(answer)},
		"events":            {kind: "text/event-stream", body: bytes.NewBufferString("data: " + progress + "\n\nid: 7\nevent: message\ndata: " + answer + "\n\n")},
		"events with CRLF":  {kind: "text/event-stream", body: bytes.NewBufferString("data:" + answer + "\r\n\r\n")},
		"result, then more": {kind: "text/event-stream", body: bytes.NewBufferString("data: " + answer + "\n\ndata: " + progress + "\n\n")},
	} {
		if got := string(r.result()); got != want {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if got := new(rawAnswers).result(); got != nil {
		t.Errorf("no answer: got %q", got)
	}
}

func TestFindConfig(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "xdg"))
	user := filepath.Join(dir, "xdg", "hermes-host", "config.hcl")
	if places := configPlaces(true); places[0] != "config.hcl" || places[1] != user {
		t.Errorf("places: %q", places)
	}
	if slices.Contains(configPlaces(false), "config.hcl") {
		t.Error("the working directory is looked at where it must not be")
	}
	write := func(path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(user)
	if got, err := findConfig("", true); err != nil || got != user {
		t.Errorf("the user's: got %q, %v", got, err)
	}
	write("config.hcl")
	if got, err := findConfig("", true); err != nil || got != "config.hcl" {
		t.Errorf("the working directory's: got %q, %v", got, err)
	}
	if got, err := findConfig("", false); err != nil || got != user {
		t.Errorf("without the working directory: got %q, %v", got, err)
	}
	if _, err := findConfig("none.hcl", true); err == nil || !strings.Contains(err.Error(), "none.hcl") {
		t.Errorf("a file that is not there: %v", err)
	}
}
