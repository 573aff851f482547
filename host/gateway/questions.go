package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// maxQuestions bounds the requests that wait for one client's answer.
const maxQuestions = 256

var (
	errTooMany = errors.New("too many requests wait for the client's answer")
	errNoWay   = errors.New("the client has no stream on which it could be asked")
)

// questions matches a client's answers to what it was asked. Ids are the
// gateway's own, one sequence per session.
type questions struct {
	mu      sync.Mutex
	last    int64
	waiting map[string]chan session.Reply
	done    chan struct{} // closed by end
	cause   error
}

func newQuestions() *questions {
	return &questions{waiting: make(map[string]chan session.Reply), done: make(chan struct{})}
}

// ask hands a request to send and waits for its answer. When ctx ends before
// that, the client is told that nobody waits any more.
func (q *questions) ask(ctx context.Context, method string, params json.RawMessage, send func(*jsonrpc.Message) bool) (session.Reply, error) {
	answer := make(chan session.Reply, 1)
	q.mu.Lock()
	switch {
	case q.cause != nil:
		q.mu.Unlock()
		return session.Reply{}, q.cause
	case len(q.waiting) >= maxQuestions:
		q.mu.Unlock()
		return session.Reply{}, errTooMany
	}
	q.last++
	id := strconv.AppendInt(nil, q.last, 10)
	q.waiting[string(id)] = answer
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.waiting, string(id))
	}()

	if !send(&jsonrpc.Message{ID: id, Method: method, Params: params}) {
		return session.Reply{}, errNoWay
	}
	select {
	case r := <-answer:
		return r, nil
	case <-q.done:
		return session.Reply{}, q.cause
	case <-ctx.Done():
		send(&jsonrpc.Message{Method: "notifications/cancelled", Params: append(append([]byte(`{"requestId":`), id...), '}')})
		return session.Reply{}, context.Cause(ctx)
	}
}

// answer delivers a response of the client and reports whether anybody waits
// for it.
func (q *questions) answer(m *jsonrpc.Message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting, ok := q.waiting[string(m.ID)]
	if !ok {
		return false
	}
	delete(q.waiting, string(m.ID)) // one answer counts
	waiting <- session.Reply{Result: m.Result, Error: m.Error}
	return true
}

// end fails everything that waits, and everything that is asked later.
func (q *questions) end(cause error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cause == nil {
		q.cause = cause
		close(q.done)
	}
}
