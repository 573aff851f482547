package main

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// Not every server tells with a 404 that it has lost a session. Some answer 400,
// some answer 200 with a JSON-RPC error, and the error's code is not agreed on
// between the SDKs. Such an answer may as well be a tool's own, and its text is
// no proof of anything. So it only raises the suspicion, and a ping in the same
// session settles it: a session that lives answers a ping with a result, or with
// an error of another kind; one that is lost refuses the ping as it refused the
// request.

// checkTime bounds the ping.
const checkTime = 5 * time.Second

// refusals are the codes of JSON-RPC errors that servers are known to use for
// a session that they don't know: invalid request (the Python SDK; as a
// positive number where a relay passes on that SDK's own words), and three of
// the range that JSON-RPC leaves to implementations (the TypeScript SDK and
// its examples, and servers after them).
var refusals = map[int64]bool{
	jsonrpc.CodeInvalidRequest: true,
	32600:                      true,
	codeServerError:            true,
	-32001:                     true,
	-32005:                     true,
}

// suspect reports whether an answer may mean that the session is lost. The
// code is that of its JSON-RPC error, 0 if it has none.
func (p *post) suspect(code int64) bool {
	if p.probe || p.header[headerSession] == nil {
		return false
	}
	return refusals[code] || code == 0 && p.status == http.StatusBadRequest
}

// check is a ping under way, whose verdict all that ask share.
type check struct {
	done chan struct{}
	gone bool // valid once done is closed
}

// gone asks the server whether it still knows the session.
func (c *conn) gone() bool {
	c.mu.Lock()
	running := c.check
	if running == nil {
		c.check = &check{done: make(chan struct{})}
		c.pings++
	}
	mine, serial := c.check, c.pings
	c.mu.Unlock()
	if running != nil {
		<-running.done
		return running.gone
	}
	mine.gone = c.refusesPing(serial)
	c.mu.Lock()
	c.check = nil
	c.mu.Unlock()
	close(mine.done)
	return mine.gone
}

func (c *conn) refusesPing(serial int) bool {
	ctx, cancel := context.WithTimeout(c.ctx, checkTime)
	defer cancel()
	m := &jsonrpc.Message{ID: []byte(`"hermes-check-` + strconv.Itoa(serial) + `"`), Method: "ping"}
	var answer *jsonrpc.Error
	p := &post{
		conn:   c,
		id:     m.ID,
		method: m.Method,
		header: c.header(ctx, m),
		body:   m.Append(nil),
		probe:  true,
	}
	p.push = func(ctx context.Context, in shared.Incoming) bool {
		if in.IsResponse() && in.Failure == nil {
			answer = in.Error
			return true
		}
		return in.Failure != nil || c.inbox.Push(ctx, in)
	}
	p.run(ctx)
	switch {
	case p.status == http.StatusNotFound:
		return true
	case answer != nil:
		return refusals[answer.Code]
	}
	return p.status == http.StatusBadRequest
}
