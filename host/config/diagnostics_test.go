package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
)

func TestWriteToFileHasNoColor(t *testing.T) {
	_, diags := Parse([]byte("x = 1\n"), "test.hcl", options())
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := diags.Write(f); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(f.Name())
	if err != nil || bytes.Contains(got, []byte("\x1b")) || string(got) != diags.String() {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestColorAndWidth(t *testing.T) {
	_, diags := Parse([]byte("x = 1\n"), "test.hcl", options())
	r := renderer{src: diags.src, color: true, width: 20}
	r.diagnostic(diags.list[0])
	want := "\x1b[1;31mError\x1b[0m: Unsupported argument\n\n" +
		"  test.hcl:1:1:\n    1: x = 1\n       \x1b[1;31m^\x1b[0m\n\n" +
		"An argument named\n\"x\" is not expected\nhere.\n\n"
	if got := r.buf.String(); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestSnippets: whatever the line looks like, the mark is below the part.
func TestSnippets(t *testing.T) {
	long := strings.Repeat("a", 500)
	for _, tt := range []struct{ name, text, want string }{
		{"tab", "\t\tx = 1\n", "    1: \t\tx = 1\n       \t\t^\n"},
		{"accents", "# é\n\"é\" = 1\n", ""},
		{"carriage return", "x = 1\r\ny = 2\r\n", "    1: x = 1\n       ^\n"},
		{"no newline at the end", "x = 1", "    1: x = 1\n       ^\n"},
		{"long line", "log {\n  level = \"" + long + "\"\n}\n", "    2:   level = \"" + long[:79] + "…\n                 " + strings.Repeat("^", 80) + "\n"},
		{"long before", "log {\n  level = concat([\"" + long + "\"], wrong)\n}\n", "    2: …" + long[:36] + "\"], wrong)\n"},
		{"end of file", "server \"x\" {\n", "    1: server \"x\" {\n"},
		{"empty", "\xff", "    1: ?\n"},
	} {
		_, diags := Parse([]byte(tt.text), "test.hcl", options())
		if got := diags.String(); got == "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
	// A range that is not of this file, or beyond it.
	src := &source{name: "a", text: []byte("x")}
	for _, at := range []hcl.Range{{Filename: "b"}, {Filename: "a", Start: hcl.Pos{Byte: 9}}} {
		if _, _, _, ok := src.line(at); ok {
			t.Errorf("%v has a line", at)
		}
	}
}
