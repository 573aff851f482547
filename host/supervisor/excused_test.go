package supervisor

import (
	"context"
	"testing"
	"time"

	"github.com/hermes-host/hermes-host/host/session"
)

// The limit of a call is for the server: while somebody else is waited for, the
// call is given its time again, and no breaker hears of it.
func TestExcusedCallsGetTheirTimeAgain(t *testing.T) {
	w := &world{}
	w.call = func(ctx context.Context, _ *fake, _ session.Request) (session.Reply, error) {
		<-ctx.Done()
		return session.Reply{}, context.Cause(ctx)
	}
	scene(t, w, nil, func(r *rig) {
		at := time.Now()
		asked := 0
		_, err := r.try(CallOptions{Timeout: time.Minute, Excused: func() bool { asked++; return asked < 3 }})
		want[*TimeoutError](t, err)
		if took := time.Since(at); took != 3*time.Minute {
			t.Errorf("ended after %v", took)
		}
	})
}
