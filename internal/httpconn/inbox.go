package httpconn

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

const (
	maxInFlight = 1024 // messages of the host under way
	queueLength = 64   // messages of the server that wait for Read

	// How long the end of a session waits for the verdicts on other requests
	// under way. Most will be told in this time that they were not delivered,
	// and can then be repeated without fear.
	lastVerdicts = 250 * time.Millisecond
)

// An Inbox is where the goroutines of a session over HTTP meet: those that carry
// a message of the host, those that read streams, and the kit's, which calls
// Read. It knows whether the session lives and when nothing of it is left.
//
// Its methods may be called from any goroutine.
type Inbox struct {
	in   chan shared.Incoming
	over chan struct{} // closed when Read has nothing more to wait for
	wg   sync.WaitGroup

	mu       sync.Mutex
	inFlight int
	end      error // why the session is over, nil while it lives
	isOver   bool
	closing  bool
	will     error // what ends the session once no message is under way

	willing atomic.Bool // will is set
}

// NewInbox returns an inbox of a session that lives.
func NewInbox() *Inbox {
	return &Inbox{in: make(chan shared.Incoming, queueLength), over: make(chan struct{})}
}

// Read returns the next message, and once all have been read why the session
// is over.
func (b *Inbox) Read(ctx context.Context) (shared.Incoming, error) {
	select {
	case m := <-b.in:
		return m, nil
	default:
	}
	select {
	case m := <-b.in:
		return m, nil
	case <-ctx.Done():
		return shared.Incoming{}, context.Cause(ctx)
	case <-b.over:
	}
	select {
	case m := <-b.in: // what came before the end
		return m, nil
	default:
	}
	return shared.Incoming{}, b.Ended()
}

// Push hands a message to Read. It waits while the host is slow, and returns
// false if ctx ends meanwhile.
func (b *Inbox) Push(ctx context.Context, m shared.Incoming) bool {
	select {
	case b.in <- m:
		return true
	default:
	}
	select {
	case b.in <- m:
		return true
	case <-ctx.Done():
		return false
	}
}

// Go carries one message of the host in a goroutine, unless the session is
// over.
func (b *Inbox) Go(carry func()) error {
	if err := b.begin(); err != nil {
		return err
	}
	go func() {
		defer b.finish()
		carry()
	}()
	return nil
}

// Do carries one message of the host, unless the session is over.
func (b *Inbox) Do(carry func() error) error {
	if err := b.begin(); err != nil {
		return err
	}
	defer b.finish()
	return carry()
}

// begin counts a message in, or says why it can't go out any more.
func (b *Inbox) begin() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	refused := &shared.WriteError{
		Reason:    transportpb.TransportError_REASON_CONNECTION,
		Delivered: transportpb.TransportError_DELIVERED_NO,
	}
	switch {
	case b.closing:
		return net.ErrClosed
	case b.end != nil:
		refused.Reason, refused.Message = reasonOf(b.end), b.end.Error()
		return refused
	case b.inFlight >= maxInFlight:
		refused.Message = "too many messages are under way to the server"
		return refused
	}
	b.inFlight++
	b.wg.Add(1)
	return nil
}

func (b *Inbox) finish() {
	b.mu.Lock()
	b.inFlight--
	if b.inFlight == 0 {
		if b.end == nil {
			b.end = b.will
		}
		if b.end != nil {
			b.setOver()
		}
	}
	b.mu.Unlock()
	b.wg.Done()
}

// Background runs a goroutine that is no message's, such as the reader of a
// stream, unless the session is closed.
func (b *Inbox) Background(run func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closing {
		b.wg.Go(run)
	}
}

// Idle reports whether no message is under way.
func (b *Inbox) Idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inFlight == 0
}

// Unreachable is told of a message for which no connection could be made. If no
// other message has one either, the server is gone: the session ends with the
// last of those under way, unless one of them, or a later one, has reached the
// server after all.
func (b *Inbox) Unreachable(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.will = why
	b.willing.Store(true)
}

// Reached is told of each sign of life of the server.
func (b *Inbox) Reached() {
	if !b.willing.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.will = nil
	b.willing.Store(false)
}

// End ends the session; the first reason counts. Nothing goes out from now on,
// and Read returns the reason a moment after the last failure.
func (b *Inbox) End(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end != nil {
		return
	}
	b.end = why
	if b.inFlight == 0 {
		b.setOver()
		return
	}
	time.AfterFunc(lastVerdicts, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.setOver()
	})
}

// Ended returns why the session is over, nil if it lives.
func (b *Inbox) Ended() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end
}

// Lost reports whether the server no longer knows the session.
func (b *Inbox) Lost() bool {
	end := b.Ended()
	return end != nil && reasonOf(end) == transportpb.TransportError_REASON_SESSION_LOST
}

// Close ends the session if it lives and waits for all goroutines, which the
// caller has told to end by way of stop. It returns whether it is the first.
func (b *Inbox) Close(stop func()) bool {
	b.mu.Lock()
	first := !b.closing
	b.closing = true
	b.mu.Unlock()
	b.End(net.ErrClosed)
	stop()
	b.wg.Wait()
	b.mu.Lock()
	b.setOver()
	b.mu.Unlock()
	return first
}

// setOver is called with the mutex held.
func (b *Inbox) setOver() {
	if !b.isOver {
		b.isOver = true
		close(b.over)
	}
}

// reasonOf says why a message can't go out on a session that has ended.
func reasonOf(end error) transportpb.TransportError_Reason {
	if e, ok := errors.AsType[*shared.EndError](end); ok {
		switch e.Class {
		case transportpb.SessionEnd_CLASS_SESSION_LOST:
			return transportpb.TransportError_REASON_SESSION_LOST
		case transportpb.SessionEnd_CLASS_AUTH:
			return transportpb.TransportError_REASON_AUTHORIZATION
		}
	}
	return transportpb.TransportError_REASON_CONNECTION
}
