package supervisor

import (
	"context"
	"sync"
	"time"
)

// A Gate bounds how many supervisors connect at the same time, so that a host
// that wakes from sleep, or starts with hundreds of servers, does not start
// everything in one instant. The zero Gate is not usable; a nil one lets
// everybody through.
type Gate struct{ slots chan struct{} }

// gateHold is how long one connect can keep its place. Servers that hang must
// not keep others from starting.
const gateHold = time.Second

// NewGate returns a gate for n at a time; 0: 16.
func NewGate(n int) *Gate {
	if n <= 0 {
		n = 16
	}
	return &Gate{make(chan struct{}, n)}
}

// enter waits for a place, which the returned function gives back; it is given
// back after gateHold in any case.
func (g *Gate) enter(ctx context.Context) (leave func(), err error) {
	if g == nil {
		return func() {}, nil
	}
	select {
	case g.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	free := sync.OnceFunc(func() { <-g.slots })
	timer := time.AfterFunc(gateHold, free)
	return func() { timer.Stop(); free() }, nil
}
