package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestHungPluginHoldsNobodyUp: a plugin that hangs before its handshake does not
// hold up the host's start. Its own server goes on being tried.
func TestHungPluginHoldsNobodyUp(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	w := begin(t, false, block("s", "s", "", ""),
		"server \"hung\" {\n  transport \"hung\" {\n    x = 1\n  }\n}\n"+
			strings.NewReplacer(`"test"`, `"hung"`, beThePlugin, beHung).Replace(pluginBlock(exe, "1")), pluginBlock(exe, "1"))
	if c := w.client(); !strings.HasPrefix(c.mark("s"), "s ") {
		t.Error("the other server is another")
	}
	if took := time.Since(began); took > 9*time.Second {
		t.Errorf("the first call was answered after %v", took)
	}
	if s := w.status("hung"); s.State != "connecting" {
		t.Errorf("the server of the hung plugin is %s: %s", s.State, s.Reason)
	}
}

// TestHasty: who has not answered when the others have gets as much time again,
// or three seconds if that is more. Without another's answer nobody is late.
func TestHasty(t *testing.T) {
	for _, c := range []struct {
		others []time.Duration // after which others answer
		want   time.Duration   // the time that the hung one is given; it has a minute of its own
	}{
		{nil, time.Minute},
		{[]time.Duration{100 * time.Millisecond}, 3100 * time.Millisecond},
		{[]time.Duration{100 * time.Millisecond, 2 * time.Second, 4 * time.Second}, 8 * time.Second},
	} {
		t.Run(fmt.Sprint(c.others), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHasty(resolver{})
				defer h.stop()
				for _, after := range c.others {
					go func() {
						_, _ = hurry(t.Context(), h, func(context.Context) (int, error) { time.Sleep(after); return 0, nil })
					}()
				}
				began := time.Now()
				_, err := hurry(t.Context(), h, func(ctx context.Context) (int, error) {
					bounded, cancel := context.WithTimeout(ctx, time.Minute)
					defer cancel()
					<-bounded.Done()
					return 0, bounded.Err()
				})
				_, late := errors.AsType[lateError](err)
				if took := time.Since(began); took != c.want || late != (c.others != nil) {
					t.Errorf("given up after %v with %v, want %v", took, err, c.want)
				}
			})
		})
	}
}
