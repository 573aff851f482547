//go:build linux

package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The checks are no good unless they fail when they should.

func TestLedger(t *testing.T) {
	tests := []struct {
		name   string
		told   outcome
		writes int
		wrong  string // part of what is said; "": nothing
	}{
		{"answered", answered, 1, ""},
		{"lost", answered, 0, "told that it was"},
		{"twice", answered, 2, "done 2 times"},
		{"unknown done", unknown, 1, ""},
		{"unknown not done", unknown, 0, ""},
		{"unknown twice", unknown, 2, "done 2 times"},
		{"not sent", unsent, 0, ""},
		{"sent after all", unsent, 1, "told that it was not sent"},
		{"cut", cut, 1, ""},
		{"cancelled", cancelled, 0, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := newLedger()
			l.note("stdio1", "key", test.told)
			path := filepath.Join(t.TempDir(), "writes")
			if err := os.WriteFile(path, []byte(strings.Repeat("stdio1 key\n", test.writes)), 0o600); err != nil {
				t.Fatal(err)
			}
			b, err := l.compare(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(b.wrong, "\n"); test.wrong == "" && got != "" || !strings.Contains(got, test.wrong) {
				t.Errorf("got %q, want %q", got, test.wrong)
			}
		})
	}
	t.Run("nobody's", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "writes")
		if err := os.WriteFile(path, []byte("stdio1 other\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if b, err := newLedger().compare(path); err != nil || len(b.wrong) != 1 {
			t.Errorf("got %v, %v, want one complaint", b.wrong, err)
		}
	})
}

func TestJudge(t *testing.T) {
	s := &server{name: "http1"}
	result := func(text string, failed bool, facts any) *mcp.CallToolResult {
		r := &mcp.CallToolResult{IsError: failed, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
		if facts != nil {
			r.Meta = mcp.Meta{metaError: facts}
		}
		return r
	}
	facts := func(server string, sent any) map[string]any {
		return map[string]any{"server": server, "reason": "timeout", "sent": sent}
	}
	tests := []struct {
		name, tool string
		res        *mcp.CallToolResult
		want       outcome
	}{
		{"answer", "echo", result("http1 key", false, nil), answered},
		{"another call's", "echo", result("http1 key2", false, nil), wrong},
		{"another server's", "echo", result("http2 key", false, nil), wrong},
		{"nothing", "echo", &mcp.CallToolResult{}, wrong},
		{"whole", "big", result("http1 key...", false, nil), answered},
		{"cut off", "big", result("http1 key..", false, nil), wrong},
		{"sent", "echo", result(`server "http1" …`, true, facts("http1", true)), unknown},
		{"not sent", "echo", result(`server "http1" …`, true, facts("http1", false)), unsent},
		{"does not say", "echo", result(`server "http1" …`, true, facts("http1", nil)), wrong},
		{"no facts", "echo", result(`server "http1" …`, true, nil), wrong},
		{"empty", "echo", result("", true, facts("http1", false)), wrong},
		{"of another server", "echo", result(`server "http2" …`, true, facts("http2", false)), wrong},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got, reason, _ := judge(s, test.tool, arguments{Text: "key", Size: 3}, test.res); got != test.want {
				t.Errorf("judged as %v (%s), want %v", got, reason, test.want)
			}
		})
	}
}

func TestLevels(t *testing.T) {
	before := level{processes: map[string]int{"server a": 1}, goroutines: 300, descriptors: 80, heap: 6, own: 20}
	if above := before.above(before); len(above) > 0 {
		t.Errorf("above itself: %q", above)
	}
	after := level{processes: map[string]int{"server a": 2, "server b": 1}, goroutines: 310, descriptors: 90, heap: 20, own: 40}
	if above := after.above(before); len(above) != 6 {
		t.Errorf("got %q, want six complaints", above)
	}
	if above := (level{}).above(before); len(above) != 1 {
		t.Errorf("got %q, want one complaint: a process is missing", above)
	}
}

// TestSeed draws faults: the same from the same seed, all kinds, and none for
// steady servers.
func TestSeed(t *testing.T) {
	draw := func(seed uint64) []string {
		random := rand.New(rand.NewPCG(seed, 0))
		all := servers()
		var drawn []string
		for range 2000 {
			f := next(random, all)
			if f.server.steady {
				t.Fatalf("%s of %s", f.kind.name, f.server.name)
			}
			drawn = append(drawn, f.kind.name+" "+f.server.name+" "+f.String())
		}
		return drawn
	}
	first := draw(1)
	if !slices.Equal(first, draw(1)) {
		t.Error("the same seed gave other faults")
	}
	if slices.Equal(first, draw(2)) {
		t.Error("another seed gave the same faults")
	}
	for _, k := range kinds {
		if !slices.ContainsFunc(first, func(s string) bool { return strings.HasPrefix(s, k.name+" ") }) {
			t.Errorf("no %q among 2000 faults", k.name)
		}
	}
}
