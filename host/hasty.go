package host

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// grace is how long a plugin that has not answered is waited for, at the host's
// start, once another has.
const grace = 3 * time.Second

// A hasty resolver asks plugins at the host's start. They are asked side by side,
// so one that has not answered long after another has hangs. It must not hold up
// the servers of the others: the question ends with an error, which makes its own
// servers come later. Where all are slow the machine is, and nothing ends early.
type hasty struct {
	resolver
	began time.Time

	mu    sync.Mutex
	asked map[*context.CancelCauseFunc]bool // questions that are open
	timer *time.Timer                       // from the latest answer on; nil before the first
}

func newHasty(r resolver) *hasty {
	return &hasty{resolver: r, began: time.Now(), asked: map[*context.CancelCauseFunc]bool{}}
}

// Schema implements [config.Plugins].
func (h *hasty) Schema(ctx context.Context, kind string) ([]*transportpb.Attribute, error) {
	return hurry(ctx, h, func(ctx context.Context) ([]*transportpb.Attribute, error) { return h.resolver.Schema(ctx, kind) })
}

// Validate implements [config.Plugins].
func (h *hasty) Validate(ctx context.Context, kind string, block []byte) ([]*transportpb.Diagnostic, error) {
	return hurry(ctx, h, func(ctx context.Context) ([]*transportpb.Diagnostic, error) {
		return h.resolver.Validate(ctx, kind, block)
	})
}

// hurry asks a question, and ends it when it takes too long.
func hurry[T any](ctx context.Context, h *hasty, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h.mu.Lock()
	h.asked[&cancel] = true
	h.mu.Unlock()
	answer, err := ask(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.asked, &cancel)
	if late, ok := context.Cause(ctx).(lateError); ok && err != nil {
		return answer, late
	}
	if err == nil {
		h.answered()
	}
	return answer, err
}

// answered gives those that have not answered as much time as the others have
// taken, and grace at least. The caller holds h.mu.
func (h *hasty) answered() {
	left := max(grace, time.Since(h.began))
	if h.timer != nil {
		h.timer.Reset(left)
		return
	}
	h.timer = time.AfterFunc(left, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		for cancel := range h.asked {
			(*cancel)(lateError(time.Since(h.began)))
		}
	})
}

// stop ends the timer. Nothing may be asked after it.
func (h *hasty) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer != nil {
		h.timer.Stop()
	}
}

// lateError says how long a plugin has not answered.
type lateError time.Duration

func (e lateError) Error() string {
	return fmt.Sprintf("it has not answered for %s, so the host starts without it; it is tried again", time.Duration(e).Round(100*time.Millisecond))
}
