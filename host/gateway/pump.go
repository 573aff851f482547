package gateway

import (
	"context"
	"time"
)

// writer takes what a pump writes, a few whole events at a time.
type writer interface{ write([]byte) error }

// pump writes the log to w until it is complete, the client is gone, or
// another pump takes over. From is the number of the first event to write, -1
// for the first that has not been written yet. First, if not nil, is written
// before all events; a client that has it can be asked over the stream. A
// keepAlive of 0 means none.
func (s *stream) pump(ctx context.Context, w writer, first []byte, from int, keepAlive time.Duration) error {
	me := &reader{wake: make(chan struct{}, 1)}
	s.attach(me, from)
	defer s.detach(me)
	if first != nil {
		if err := w.write(first); err != nil {
			return err
		}
	}
	quiet := time.NewTimer(keepAlive)
	defer quiet.Stop()
	if keepAlive <= 0 {
		quiet.Stop()
	}
	var scratch [4 << 10]byte
	for {
		batch, done, err := s.take(me, scratch[:0])
		if err != nil {
			return err
		}
		if len(batch) > 0 {
			if err := w.write(batch); err != nil {
				return err
			}
			if keepAlive > 0 {
				quiet.Reset(keepAlive)
			}
			continue
		}
		if done {
			return nil
		}
		select {
		case <-me.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-quiet.C:
			if err := w.write([]byte(": keep-alive\n\n")); err != nil {
				return err
			}
			quiet.Reset(keepAlive)
		}
	}
}

func (s *stream) attach(me *reader, from int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake() // the former pump sees that it is no longer the one
	s.reader = me
	if s.orphan != nil {
		s.orphan.Stop()
	}
	s.sending = 0 // what the former pump had taken may not have arrived
	if from >= 0 {
		s.written = len(s.events)
		for s.written > 0 && s.events[s.written-1].n >= from {
			s.written--
		}
	}
	s.kept, s.queued = 0, 0
	for i, e := range s.events {
		if i < s.written {
			s.kept += len(e.text)
		} else {
			s.queued += len(e.text)
		}
	}
}

func (s *stream) detach(me *reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader != me {
		return
	}
	s.reader = nil
	if s.cancel != nil && !s.closed && !s.failed && s.grace > 0 {
		s.orphan = time.AfterFunc(s.grace, func() {
			if !s.hasReader() {
				s.cancel(errClientGone)
			}
		})
	}
}

// hasReader reports whether a pump is at work.
func (s *stream) hasReader() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reader != nil
}

// position returns the number of the last event that was written.
func (s *stream) position() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last - (len(s.events) - s.written)
}

// take returns events that wait, about as many as one write should carry, in
// dst or where they are, and counts those that it returned before as written.
// Done says that nothing more will come.
func (s *stream) take(me *reader, dst []byte) (_ []byte, done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader != me {
		return dst, false, errReplaced
	}
	s.commit()
	if s.failed {
		return dst, false, errOverflow
	}
	for _, e := range s.waiting() {
		if len(dst)+len(e.text) > cap(dst) {
			if s.sending == 0 {
				dst = e.text // alone, and not copied
				s.sending++
			}
			break
		}
		dst = append(dst, e.text...)
		s.sending++
	}
	return dst, s.closed && s.written == len(s.events), nil
}

// commit moves what was being written to what is kept, and drops what need not
// be kept any longer.
func (s *stream) commit() {
	for ; s.sending > 0; s.sending-- {
		e := &s.events[s.written]
		if e.sent != nil {
			close(e.sent)
			e.sent = nil
		}
		n := len(e.text)
		s.queued -= n
		s.kept += n
		s.written++
	}
	drop := 0
	for drop < s.written && s.kept > s.replay {
		s.kept -= len(s.events[drop].text)
		drop++
	}
	if drop > 0 {
		clear(s.events[:drop])
		s.events = s.events[drop:]
		s.written -= drop
	}
}

// finished reports whether the log is complete.
func (s *stream) finished() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed || s.failed
}

// size returns what the stream holds in memory, in bytes.
func (s *stream) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept + s.queued
}
