package shared

import (
	"sync"
	"time"

	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// outboxMax is how many messages may wait for a server that does not read.
const outboxMax = 4096

// outgoing is a message for the server.
type outgoing struct {
	id  uint64 // of the host's request; 0 for anything else
	msg jsonrpc.Message
}

// outbox is the queue between the host's frames and the Conn. It keeps a
// server that doesn't read from holding up the host's stream, on which the
// order to close the session comes too.
type outbox struct {
	mu     sync.Mutex
	items  []outgoing
	bytes  int
	limit  int // of bytes; a single message may exceed it
	closed bool
	wake   chan struct{} // holds a token when there is something to look at
	done   chan struct{} // closed when run has returned; nil before it is called
}

func (o *outbox) init(limit int) {
	o.limit = limit
	o.wake = make(chan struct{}, 1)
}

// push queues a message. It returns false if there is no room. What the
// protocol can't do without, such as answers, has twice the room.
func (o *outbox) push(m outgoing, needed bool) bool {
	size := m.msg.Size()
	room := 1
	if needed {
		room = 2
	}
	o.mu.Lock()
	ok := !o.closed && (len(o.items) == 0 || len(o.items) < room*outboxMax && o.bytes+size <= room*o.limit)
	if ok {
		o.items = append(o.items, m)
		o.bytes += size
	}
	o.mu.Unlock()
	if ok {
		o.poke()
	}
	return ok
}

func (o *outbox) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// run gives write one message after the other until the outbox is closed.
func (o *outbox) run(write func(outgoing)) {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return
	}
	done := make(chan struct{})
	o.done = done
	o.mu.Unlock()
	defer close(done)
	for range o.wake {
		for {
			o.mu.Lock()
			if o.closed {
				o.mu.Unlock()
				return
			}
			if len(o.items) == 0 {
				o.items = nil // don't keep a long queue's memory
				o.mu.Unlock()
				break
			}
			m := o.items[0]
			o.items[0] = outgoing{}
			o.items = o.items[1:]
			o.bytes -= m.msg.Size()
			o.mu.Unlock()
			write(m)
		}
	}
}

// close lets run return and nothing more be queued. It returns the host's
// requests that were never given to write.
func (o *outbox) close() []uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	var unsent []uint64
	for _, m := range o.items {
		if m.id != 0 {
			unsent = append(unsent, m.id)
		}
	}
	o.items = nil
	o.poke()
	return unsent
}

// wait returns when run has, or when its last write, which the Conn's Close
// should have ended, does not end within a second.
func (o *outbox) wait() {
	o.mu.Lock()
	done := o.done
	o.mu.Unlock()
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}
