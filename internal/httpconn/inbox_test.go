package httpconn

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

func TestInboxTooManyInFlight(t *testing.T) {
	b := NewInbox()
	release := make(chan struct{})
	for range maxInFlight {
		if err := b.Go(func() { <-release }); err != nil {
			t.Fatal(err)
		}
	}
	err := b.Go(func() { t.Error("carried all the same") })
	if f, ok := err.(*shared.WriteError); !ok || f.Delivered != deliveredNo || f.Message == "" {
		t.Errorf("got %v", err)
	}
	b.Close(func() { close(release) })
}

// TestInboxEnd: messages and failures come before the end, which waits a
// moment for those under way and no longer.
func TestInboxEnd(t *testing.T) {
	for name, test := range map[string]struct {
		takes, want time.Duration
	}{
		"quick verdict": {100 * time.Millisecond, 100 * time.Millisecond},
		"slow verdict":  {time.Hour, lastVerdicts},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := NewInbox()
				ctx, cancel := context.WithCancel(t.Context())
				why := &shared.EndError{Class: transportpb.SessionEnd_CLASS_SESSION_LOST, Message: "lost"}
				for range 3 {
					if err := b.Go(func() {
						select {
						case <-time.After(test.takes):
							b.Push(ctx, shared.Incoming{Failure: &shared.WriteError{Message: "not delivered"}})
						case <-ctx.Done():
						}
					}); err != nil {
						t.Fatal(err)
					}
				}
				began := time.Now()
				b.End(why)
				b.End(errors.New("another reason"))
				err := b.Do(func() error { return nil })
				if f, ok := err.(*shared.WriteError); !ok || f.Reason != transportpb.TransportError_REASON_SESSION_LOST {
					t.Errorf("a message after the end: %v", err)
				}
				verdicts := 0
				for {
					if _, err := b.Read(ctx); err != nil {
						if err != why {
							t.Errorf("ended with %v", err)
						}
						break
					}
					verdicts++
				}
				if d := time.Since(began); d != test.want {
					t.Errorf("ended after %v, want %v", d, test.want)
				}
				if quick := test.takes < lastVerdicts; quick != (verdicts == 3) {
					t.Errorf("%d verdicts", verdicts)
				}
				if !b.Lost() {
					t.Error("not lost")
				}
				b.Close(cancel)
			})
		})
	}
}

func TestInboxClose(t *testing.T) {
	b := NewInbox()
	ctx, cancel := context.WithCancel(t.Context())
	running := false
	b.Background(func() { <-ctx.Done(); running = true })
	if !b.Close(cancel) || b.Close(cancel) {
		t.Error("the first Close is not told from the second")
	}
	if !running {
		t.Error("Close did not wait")
	}
	b.Background(func() { t.Error("started after Close") })
	if err := b.Go(func() {}); err != net.ErrClosed {
		t.Errorf("Go after Close: %v", err)
	}
	if _, err := b.Read(t.Context()); err != net.ErrClosed {
		t.Errorf("Read after Close: %v", err)
	}
}

// TestInboxPush: a slow host holds up the reader of a stream, but not for
// longer than the stream is wanted.
func TestInboxPush(t *testing.T) {
	b := NewInbox()
	ctx, cancel := context.WithCancel(t.Context())
	for range queueLength {
		if !b.Push(ctx, shared.Incoming{}) {
			t.Fatal("Push fails with room left")
		}
	}
	cancel()
	if b.Push(ctx, shared.Incoming{}) {
		t.Error("Push succeeds without room")
	}
}
