package catalog

import (
	"strings"
	"testing"
	"time"
)

// Whatever a server of some SDK would take for an expansion of its template
// finds the way to that server.
func TestTemplatesErrTowardsMatching(t *testing.T) {
	for _, tt := range []struct {
		template, uri string
		want          bool
	}{
		{"db://{table}", "db://users", true},
		{"db://{table}", "db://a:b", true},
		{"db://{table}", "db://a/b", false},
		{"file:///{path}", "file:///a b.txt", true},
		{"file:///{+path}", "file:///a/b/c.txt", true},
		{"file:///{path*}", "file:///a/b", false},
		{"u://{id}/x", "u://@me/x", true},
		{"u://{name}", "u://Grüße", true},
		{"u://{name}", "u://a%20b", true},
		{"x://a{?q,r}", "x://a?q=1&r=2", true},
		{"x://a{?q,r}", "x://a", true},
		{"x://a{?q,r}", "x://b?q=1", false},
		{"x://a{/b}{.c}{#d}", "x://a/1.2#3", true},
		{"x://a.b", "x://a.b", true},
		{"x://a.b", "x://aXb", false},
		{"x://{a", "x://1", false},
		{"x://{}", "x://", false},
		{"", "", true},
	} {
		if got := parseTemplate(tt.template).matches(tt.uri); got != tt.want {
			t.Errorf("%s matches %s: %v", tt.template, tt.uri, got)
		}
	}
	if parseTemplate(strings.Repeat("{+a}", maxTemplate)) != nil {
		t.Error("a template without bound is taken")
	}
}

// Matching takes time linear to the URI, whatever the template.
func TestTemplatesAreQuick(t *testing.T) {
	tm := parseTemplate("x://" + strings.Repeat("{+a}", 20) + "!")
	begun := time.Now()
	if tm.matches("x://" + strings.Repeat("a", 20_000)) {
		t.Error("matches")
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}
