package shared

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
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

// callID reads the id of an answer as one of the host's. 0 stands for any
// other id.
func callID(raw json.RawMessage) uint64 {
	id, _ := wholeNumber(raw)
	return id
}

// sameID reports whether the id of an answer is that of a request. Some servers
// keep ids as text, or as floating point, and turn 1 into "1" or 1.0.
func sameID(got, want json.RawMessage) bool {
	if string(got) == string(want) {
		return true
	}
	a, ok := wholeNumber(got)
	b, also := wholeNumber(want)
	return ok && also && a == b
}

// wholeNumber reads an id that is a whole number, however it is spelt.
func wholeNumber(raw json.RawMessage) (n uint64, ok bool) {
	if n := len(raw); n > 2 && raw[0] == '"' && raw[n-1] == '"' {
		raw = raw[1 : n-1]
	}
	for i, c := range raw {
		if c == '.' || c == 'e' || c == 'E' {
			f, err := strconv.ParseFloat(string(raw), 64)
			if err != nil || f < 0 || f > 1<<53 || f != math.Trunc(f) || i == 0 {
				return 0, false
			}
			return uint64(f), true
		}
		if c < '0' || c > '9' || n > (1<<64-10)/10 {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, len(raw) > 0
}
