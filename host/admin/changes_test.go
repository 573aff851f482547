package admin

import (
	"fmt"
	"strings"
	"testing"
)

// TestSummary says in one line what a dry run says in many, as far as there is
// room.
func TestSummary(t *testing.T) {
	c := Changes{
		Added: []string{"new"}, Removed: []string{"old"}, Order: true, Live: []string{"endpoint coding", "plugin ws"}, Restart: []string{"listen address"},
		Replaced: []Change{{Server: "files", Settings: []string{"transport url", "timeouts"}, Trouble: "it is parked: refused"}},
		Updated:  []Change{{Server: "tickets", Settings: []string{"tools"}}},
	}
	if got, want := c.Summary(1000), "- old: removed; + new: added; ~ files: new session (transport url, timeouts); ~ tickets: lists only (tools); "+
		"~ the order of the servers; ~ endpoint coding; ~ plugin ws; ! listen address: needs a restart of the host"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := (Changes{}).Summary(1000); got != "nothing has changed" {
		t.Errorf("without changes: %s", got)
	}
	for i := range 1000 {
		c.Added = append(c.Added, fmt.Sprintf("server-%d", i))
	}
	if got := c.Summary(100); len(got) > 150 || !strings.HasPrefix(got, "- old: removed; + new: added; + server-0: added; ") || !strings.HasSuffix(got, "; and 1003 more") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	c = Changes{Replaced: []Change{{Server: "files", Settings: []string{strings.Repeat("é", 1000)}}}, Added: []string{"new"}}
	if got := c.Summary(1000); len(got) > 300 || !strings.Contains(got, "é…") || strings.ContainsRune(got, '\uFFFD') {
		t.Errorf("a long line: %s", got)
	}
}
