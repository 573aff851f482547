package host

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hermes-host/hermes-host/host/admin"
	"github.com/hermes-host/hermes-host/host/config"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

// TestTeller: each new reason is one event. A thousand revivals that fail as the
// one before are a number in the next.
func TestTeller(t *testing.T) {
	h := &Host{events: admin.NewFeed[admin.Event](100, 1<<16)}
	l := &teller{h: h, cfg: &config.Config{}}
	tell := func(from, to supervisor.State, reason string, repeated bool) {
		l.tell(supervisor.Transition{Server: "x", From: from, To: to, At: time.Now(), Reason: reason, Repeated: repeated,
			Cause: &session.End{Message: reason}})
	}
	tell(supervisor.Connecting, supervisor.Connecting, "refused", false)
	tell(supervisor.Connecting, supervisor.Connecting, "refused", true)
	tell(supervisor.Connecting, supervisor.Parked, "refused", false)
	for range 1000 {
		tell(supervisor.Parked, supervisor.Reconnecting, "revive timer", true)
		tell(supervisor.Reconnecting, supervisor.Parked, "refused", true)
	}
	tell(supervisor.Parked, supervisor.Reconnecting, "revive timer", true)
	tell(supervisor.Reconnecting, supervisor.Parked, "certificate expired", false)
	tell(supervisor.Parked, supervisor.Reconnecting, "an operator", false)
	tell(supervisor.Reconnecting, supervisor.Ready, "session 3", false)

	events, _, _ := h.events.Since(0)
	var got []string
	for _, e := range events {
		got = append(got, fmt.Sprintf("%s %s: %s (%d)", e.From, e.To, e.Reason, e.Repeated))
	}
	if want := []string{
		"connecting connecting: refused (0)",
		"connecting parked: refused (1)",
		"parked reconnecting: revive timer (1000)",
		"reconnecting parked: certificate expired (0)",
		"parked reconnecting: an operator (0)",
		"reconnecting ready: session 3 (0)",
	}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
