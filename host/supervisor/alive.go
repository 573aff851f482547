package supervisor

import "context"

// A rollCall is answered by Run's goroutine, and so proves that it turns.
type rollCall struct{ here chan struct{} }

func (m rollCall) apply(*Supervisor) { close(m.here) }

// rollCall joins the roll call that waits in the mailbox, or adds one: any
// number of callers cost Run one answer.
func (m *mailbox) rollCall() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, waiting := range m.mail {
		if r, ok := waiting.(rollCall); ok {
			return r.here
		}
	}
	r := rollCall{make(chan struct{})}
	m.mail = append(m.mail, r)
	select {
	case m.bell <- struct{}{}:
	default:
	}
	return r.here
}

// Alive returns nil once Run's goroutine has answered, or has ended as it
// should. The error is the cause of ctx, whose end says how long an answer may
// take.
func (s *Supervisor) Alive(ctx context.Context) error {
	here := s.mail.rollCall()
	for {
		v := s.view.Load()
		if v.state == Stopped {
			return nil
		}
		select {
		case <-here:
			return nil
		case <-v.changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
