package supervisor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestAlive asks a supervisor that does not run, one that does, and one that
// has stopped.
func TestAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Name: "x", Disabled: true})
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 3 { // they share one message
			if err := s.Alive(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("a supervisor that does not run: %v", err)
			}
		}
		if n := len(s.mail.mail); n != 1 {
			t.Errorf("%d roll calls wait, want 1", n)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		if err := s.Alive(t.Context()); err != nil {
			t.Errorf("a running one: %v", err)
		}
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := s.Alive(t.Context()); err != nil {
			t.Errorf("a stopped one: %v", err)
		}
	})
}

// TestShutdownSaysWhy ends Run with a cause of the caller's own.
func TestShutdownSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last Transition
		s := New(Config{Name: "x", Disabled: true, OnTransition: func(tr Transition) { last = tr }})
		ctx, stop := context.WithCancelCause(t.Context())
		stop(errors.New("it was removed"))
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if last.To != Stopped || last.Reason != "it was removed" {
			t.Errorf("the last transition is %+v", last)
		}
	})
}
