package glob

import (
	"path"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern, text string
		want          bool
	}{
		{"*", "", true},
		{"*", "file:///a/b\nc", true},
		{"file:///home/*", "file:///home/me/notes/1.md", true},
		{"file:///home/*", "file:///etc/passwd", false},
		{"*.md", "file:///a/b.md", true},
		{"*.md", "file:///a/bxmd", false},
		{"read_*", "read_", true},
		{"read_*", "xread_a", false},
		{"a?c", "a/c", true},
		{"a?c", "ac", false},
		{"a?c", "aüc", true},
		{"[a-c]x", "bx", true},
		{"[a-c]x", "dx", false},
		{"[^a-c]x", "dx", true},
		{"[^a-c]x", "ax", false},
		{"[-a]", "-", true},
		{"[a-]", "-", true},
		{`[\]]`, "]", true},
		{`[a\-c]`, "b", false},
		{"[&~[]", "[", true},
		{`\*`, "*", true},
		{`\*`, "a", false},
		{"a+b(c)", "a+b(c)", true},
		{"", "", true},
		{"", "a", false},
	} {
		re, err := Compile(tt.pattern)
		if err != nil {
			t.Errorf("%q: %v", tt.pattern, err)
			continue
		}
		if got := re.MatchString(tt.text); got != tt.want {
			t.Errorf("%q matches %q: %v", tt.pattern, tt.text, got)
		}
	}
}

func TestMalformed(t *testing.T) {
	for _, pattern := range []string{"[", "[]", "[a", `a\`, `[\`, "[z-a]", "[^", "[^]"} {
		if _, err := Compile(pattern); err == nil {
			t.Errorf("%q is taken", pattern)
		}
	}
}

// FuzzCompile holds matches to those of path.Match, where slashes, which are
// different, don't come in.
func FuzzCompile(f *testing.F) {
	for _, pattern := range []string{"a*b?", "[a-z]*", `\[x`, "[^a]", "[a-b-c]"} {
		f.Add(pattern, "abc")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if strings.Contains(pattern+text, "/") || !utf8.ValidString(pattern) || !utf8.ValidString(text) || len(pattern) > 100 {
			t.Skip()
		}
		re, err := Compile(pattern)
		want, bad := path.Match(pattern, text)
		if bad != nil || err != nil {
			return
		}
		if re.MatchString(text) != want {
			t.Errorf("%q matches %q: %v, want %v", pattern, text, !want, want)
		}
	})
}
