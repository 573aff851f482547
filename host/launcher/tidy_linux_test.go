package launcher

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hermes-host/hermes-host/host/session"
)

// TestSpare: a spare launcher tries another plugin while one serves. What ends
// with the spare is its own, and not what the other launcher has started in the
// same process.
func TestSpare(t *testing.T) {
	w := newWorldWith(t, Settings{Commands: fakeCommand("", envTame+"=1"), Adopt: true})
	t.Cleanup(func() { // before the world looks for what is left
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0); err != nil {
			t.Error(err)
		}
	})
	s := w.connect(script{})
	plugin, _ := w.pids(s)
	for _, tame := range []string{"1", ""} {
		spare, err := w.Spare(fakeCommand("", envTame+"="+tame))
		if err != nil {
			t.Fatal(err)
		}
		about, err := spare.Describe(t.Context(), "fake")
		if err != nil {
			t.Error(err)
		}
		if got := len(about.Features) > 0; got != (tame != "") {
			t.Errorf("the spare's plugin has the features %q", about.Features)
		}
		spare.Close(t.Context())
		// A call that is answered by the same process.
		if _, err := s.Call(t.Context(), session.Request{Method: "pids"}); err != nil {
			t.Fatalf("the plugin that served is gone: %v", err)
		}
		if still, _ := w.pids(s); still != plugin {
			t.Errorf("process %d answers, want %d", still, plugin)
		}
	}
	w.closeWithin(s, 5*time.Second)
}
