package gateway

import (
	"strings"
	"testing"
)

// Each thing that can be wrong with a batch has its own words.
func TestCheckBatch(t *testing.T) {
	for _, c := range []struct {
		version string
		n       int
		want    string
	}{
		{version20250326, 1, ""},
		{version20250326, maxBatch, ""},
		{version20250326, 0, "empty"},
		{version20250326, maxBatch + 1, "has 101 messages"},
		{"2025-11-25", 1, "this session has 2025-11-25"},
		{"", 1, "initialized"},
	} {
		got := ""
		if e := checkBatch(c.version, c.n); e != nil {
			got = e.Message
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%q, %d messages: %q, want %q", c.version, c.n, got, c.want)
		}
	}
}
