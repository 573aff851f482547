package gateway

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// Limits of what waits on one stream for its client.
const (
	maxQueued      = 1024     // events
	maxQueuedBytes = 16 << 20 // unless a single event is larger
	maxUnreadBytes = 64 << 10 // the same on a session's own stream while nobody reads it
)

var (
	errOverflow = errors.New("the client reads too slowly: too much waits on its stream")
	errReplaced = errors.New("the client has opened the stream anew")
)

// A stream is the ordered log of what is said to a client on one logical
// stream: besides the answer to a request, or on a session's own stream. Add
// never blocks; a pump, in the goroutine of an HTTP request, writes the log to
// whichever response the client reads it from at the moment. What was written
// stays for a while, so that a client whose connection broke can resume.
type stream struct {
	key    string // prefix of event ids; "" if the stream can't be resumed
	replay int    // bytes of written events to keep
	lossy  bool   // when full, lose the oldest notification instead of failing
	lines  bool   // newline-delimited JSON instead of events

	mu      sync.Mutex
	events  []event // the log without its dropped beginning
	written int     // so many of events have been written
	sending int     // so many after them are being written
	last    int     // number of the newest event; the first has 1
	kept    int     // bytes of the written events
	queued  int     // bytes of the others
	closed  bool    // the log is complete
	failed  bool    // the log has a hole and can't be written any more
	reader  *reader // the pump, nil if none

	// cancel, if not nil, is called when nobody will read what is still to
	// come: the stream has failed, or had no pump for the time of grace.
	cancel func(cause error)
	grace  time.Duration
	orphan *time.Timer
}

type event struct {
	n    int    // its number, part of its id
	text []byte // as it goes over the wire
	kind eventKind
	sent chan struct{} // closed when it was written; nil if nobody waits for that
}

type eventKind uint8

const (
	essential eventKind = iota // an answer or a request: never lost, and few by other limits
	ordinary                   // a notification
	progress                   // the first to go when the client is slow
	repeated                   // saying it twice says no more: list_changed, updated
)

func kindOf(m *jsonrpc.Message) eventKind {
	switch {
	case !m.IsNotification():
		return essential
	case m.Method == "notifications/progress":
		return progress
	case m.Method == "notifications/resources/updated", strings.HasSuffix(m.Method, "/list_changed"):
		return repeated
	}
	return ordinary
}

// reader is one pump's place in a stream.
type reader struct{ wake chan struct{} }

func (r *reader) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// prime adds the priming event.
func (s *stream) prime() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.push(appendPriming(nil, s.key, s.last+1), essential)
}

// comment adds something to write that says nothing.
func (s *stream) comment() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.push([]byte(": keep-alive\n\n"), ordinary)
	s.wake()
}

// add queues a message and reports whether it will be delivered, as far as one
// can know.
func (s *stream) add(m *jsonrpc.Message) bool {
	s.mu.Lock()
	if s.closed || s.failed {
		s.mu.Unlock()
		return false
	}
	kind := kindOf(m)
	text := s.encode(m)
	if kind == repeated && s.waits(text) {
		s.mu.Unlock()
		return true
	}
	limit := maxQueuedBytes
	if s.key == ownStream && s.reader == nil {
		// Many clients never open the stream, and a talkative server must not
		// fill the memory with what nobody will ask for.
		limit = maxUnreadBytes
	}
	full := len(s.events)-s.written >= maxQueued || s.queued > 0 && s.queued+len(text) > limit
	if full && kind != essential && !s.makeRoom() {
		s.failed = true
		s.wake()
		s.mu.Unlock()
		if s.cancel != nil {
			s.cancel(errOverflow)
		}
		return false
	}
	s.push(text, kind)
	s.wake()
	s.mu.Unlock()
	return true
}

// addWait adds an answer and waits until it is written or ctx has ended.
func (s *stream) addWait(ctx context.Context, m *jsonrpc.Message) {
	sent := make(chan struct{})
	s.mu.Lock()
	if s.closed || s.failed {
		s.mu.Unlock()
		return
	}
	s.push(s.encode(m), essential)
	s.events[len(s.events)-1].sent = sent
	s.wake()
	s.mu.Unlock()
	select {
	case <-sent:
	case <-ctx.Done():
	}
}

func (s *stream) encode(m *jsonrpc.Message) []byte {
	text := make([]byte, 0, m.Size()+64)
	if !s.lines {
		return appendEvent(text, s.key, s.last+1, m)
	}
	text = m.Append(text)
	oneLine(text)
	return append(text, '\n')
}

func (s *stream) push(text []byte, kind eventKind) {
	s.last++
	s.events = append(s.events, event{n: s.last, text: text, kind: kind})
	s.queued += len(text)
}

// waiting returns the events that no pump has taken.
func (s *stream) waiting() []event { return s.events[s.written+s.sending:] }

func (s *stream) wake() {
	if s.reader != nil {
		s.reader.signal()
	}
}

// waits reports whether an event with the same content is yet to be written.
func (s *stream) waits(text []byte) bool {
	data := text
	if !s.lines {
		data = text[bytes.Index(text, []byte("data: ")):]
	}
	for _, e := range s.waiting() {
		if e.kind == repeated && bytes.HasSuffix(e.text, data) {
			return true
		}
	}
	return false
}

// makeRoom drops a waiting notification, progress first.
func (s *stream) makeRoom() bool {
	for _, expendable := range [...]func(eventKind) bool{
		func(k eventKind) bool { return k == progress },
		func(k eventKind) bool { return s.lossy && k != essential },
	} {
		for i, e := range s.waiting() {
			if expendable(e.kind) {
				s.queued -= len(e.text)
				at := s.written + s.sending + i
				s.events = slices.Delete(s.events, at, at+1)
				return true
			}
		}
	}
	return false
}

// close completes the log: the pump ends when it has written the rest.
func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.orphan != nil {
		s.orphan.Stop()
	}
	s.wake()
}

// spent reports whether nothing with this number or a later one will ever be on
// the stream.
func (s *stream) spent(from int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed && from > s.last
}
