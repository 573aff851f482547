package shared

import (
	"context"
	"encoding/json"
	"sync"
)

// calls holds the host's requests that have no outcome yet. Whoever takes a
// call out of it decides its outcome.
type calls struct {
	mu   sync.Mutex
	open map[uint64]*call
}

type call struct {
	ctx    context.Context // of its Write
	cancel context.CancelFunc
	sent   bool // it has been given to the Conn
}

func (c *calls) init() { c.open = map[uint64]*call{} }

// add returns false if the id is in use.
func (c *calls) add(ctx context.Context, id uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[id] != nil {
		return false
	}
	one := &call{}
	one.ctx, one.cancel = context.WithCancel(ctx)
	c.open[id] = one
	return true
}

// sending marks a call as sent and returns the context to send it under; false
// if it is no longer wanted.
func (c *calls) sending(id uint64) (context.Context, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.open[id]
	if one == nil {
		return nil, false
	}
	one.sent = true
	return one.ctx, true
}

// take removes a call, and reports whether it was there. Its context ends.
func (c *calls) take(id uint64) bool {
	_, ok := c.remove(id)
	return ok
}

func (c *calls) remove(id uint64) (sent, ok bool) {
	c.mu.Lock()
	one := c.open[id]
	delete(c.open, id)
	c.mu.Unlock()
	if one == nil {
		return false, false
	}
	one.cancel()
	return one.sent, true
}

// callID reads the id of an answer as one of the host's. Quotes are allowed:
// some servers turn numbers into strings. 0 stands for any other id.
func callID(raw json.RawMessage) uint64 {
	if n := len(raw); n > 2 && raw[0] == '"' && raw[n-1] == '"' {
		raw = raw[1 : n-1]
	}
	var id uint64
	for _, c := range raw {
		if c < '0' || c > '9' || id > (1<<64-10)/10 {
			return 0
		}
		id = id*10 + uint64(c-'0')
	}
	return id
}
