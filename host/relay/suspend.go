package relay

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// An old server asks in the middle of a call; a client of 2026-07-28 can only
// be asked by the result of a call (SEP-2322). So the call at the server stays
// open, suspended, while the client has its input_required result, and goes on
// when the client retries with its answers. A bridge joins the two.
//
// What a retry must bring is the requestState, which nobody can guess and which
// is good once, and otherwise the same params from the same client.

// patience bounds how long a client may take to answer.
const patience = 10 * time.Minute

// maxSuspended bounds the calls that wait for their clients' retry.
const maxSuspended = 1000

var (
	errImpatient    = errors.New("the client has not come back with what it was asked for")
	errManySuspends = jsonrpc.Errorf(codeUnavailable, "too many calls wait for input from their clients; try again later")
	errNoState      = jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "the requestState is not known: it is good for one retry of the same request, within 10 minutes; call again without it")
)

// suspended holds the calls that wait for a retry, by requestState.
type suspended struct {
	mu sync.Mutex
	by map[string]*bridge
}

func (s *suspended) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.by {
		b.timer.Stop()
	}
	s.by = nil
}

// A bridge is one call at an old server for a client of 2026-07-28.
type bridge struct {
	r        *Relay
	endpoint *endpoint
	method   string
	params   json.RawMessage // of the first request
	info     json.RawMessage // of its client
	call     *call
	cancel   context.CancelCauseFunc

	done  chan struct{} // closed when reply is set
	reply session.Reply
	wake  chan struct{} // holds a value when there may be something to ask

	mu    sync.Mutex
	asked []*inquiry // open questions, oldest first
	last  uint64

	timer *time.Timer // guarded by suspended.mu
}

// inquiry is an open question.
type inquiry struct {
	key, method string
	params      json.RawMessage
	answer      chan session.Reply
}

// askable reports whether a client has declared that it can be asked anything.
func askable(c Client) bool {
	for _, need := range needs {
		if has(c.Capabilities(), need) {
			return true
		}
	}
	return false
}

// suspendable sends a request in the background, under a context that ends with
// the requests of the client that are served, one after the other.
func (e *endpoint) suspendable(req *request, in *call) *bridge {
	b := &bridge{
		r: e.r, endpoint: e, method: req.Method, params: req.Params, info: req.Client.Info(), call: in,
		done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	in.bridge = b
	in.ctx, b.cancel = context.WithCancelCause(e.r.ctx)
	begun := e.r.background(func(context.Context) {
		defer close(b.done)
		defer b.cancel(nil)
		b.reply = e.r.exchange(in.ctx, req, in)
	})
	if !begun {
		b.cancel(nil)
		b.reply = failed(jsonrpc.Errorf(codeUnavailable, "%s: the host is shutting down", req.Method))
		close(b.done)
	}
	return b
}

// wait returns the answer to the client's present request: the server's, or
// what the server wants to know.
func (b *bridge) wait(ctx context.Context, c Call) session.Reply {
	stop := context.AfterFunc(ctx, func() { b.cancel(context.Cause(ctx)) })
	for {
		select {
		case <-b.done:
			stop()
			return b.reply
		case <-b.wake:
		}
		questions := b.questions()
		if len(questions) == 0 {
			continue // withdrawn
		}
		if !stop() {
			<-b.done
			return b.reply
		}
		// What comes from here on comes between two requests.
		b.call.front.Store(&front{client: c.Client, stream: nowhere{}})
		state, ok := b.r.suspend(b)
		if !ok {
			b.cancel(errors.New("too many calls are suspended"))
			<-b.done
			return failed(errManySuspends)
		}
		return inputRequired(questions, state)
	}
}

func (b *bridge) questions() []*inquiry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*inquiry(nil), b.asked...)
}

// ask has the client's next result ask a question, and waits for the answer.
func (b *bridge) ask(ctx context.Context, method string, params json.RawMessage) (session.Reply, error) {
	q := &inquiry{method: method, params: params, answer: make(chan session.Reply, 1)}
	b.mu.Lock()
	b.last++
	q.key = string(number(b.last))
	b.asked = append(b.asked, q)
	b.mu.Unlock()
	b.poke()
	select {
	case reply := <-q.answer:
		return reply, nil
	case <-ctx.Done():
		b.drop(q)
		return session.Reply{}, context.Cause(ctx)
	}
}

func (b *bridge) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *bridge) drop(q *inquiry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.asked {
		if other == q {
			b.asked = append(b.asked[:i], b.asked[i+1:]...)
			return
		}
	}
}

// inputRequired is the result that asks questions (SEP-2322).
func inputRequired(questions []*inquiry, state string) session.Reply {
	out := []byte(`{"resultType":"input_required","inputRequests":{`)
	for i, q := range questions {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, rawjson.Quote(q.key)...), `:{"method":`...)
		out = append(out, rawjson.Quote(q.method)...)
		if q.params != nil {
			out = append(append(out, `,"params":`...), q.params...)
		}
		out = append(out, '}')
	}
	out = append(append(out, `},"requestState":`...), rawjson.Quote(state)...)
	return session.Reply{Result: append(out, '}')}
}

// suspend keeps a call for a retry. It reports false if there is no room.
func (r *Relay) suspend(b *bridge) (state string, ok bool) {
	state = rand.Text() + rand.Text()
	s := &r.suspended
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.by) >= maxSuspended || r.ctx.Err() != nil {
		return "", false
	}
	if s.by == nil {
		s.by = map[string]*bridge{}
	}
	s.by[state] = b
	b.timer = time.AfterFunc(patience, func() {
		s.mu.Lock()
		late := s.by[state] == b
		delete(s.by, state)
		s.mu.Unlock()
		if late {
			b.cancel(errImpatient)
		}
	})
	return state, true
}

// resume serves the retry of a client whose call is suspended. What does not
// fit is refused, and changes nothing.
func (e *endpoint) resume(ctx context.Context, req *request, state string) session.Reply {
	s := &e.r.suspended
	s.mu.Lock()
	b := s.by[state]
	s.mu.Unlock()
	if b == nil || b.endpoint != e || b.method != req.Method || !alike(b.info, req.Client.Info()) || !alike(b.params, req.Params) {
		return failed(errNoState)
	}
	answers := rawjson.Get(req.Params, "inputResponses")
	if answers != nil && answers[0] != '{' {
		return failed(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s: inputResponses is not an object", req.Method))
	}
	for _, q := range b.questions() {
		if a := rawjson.Get(answers, q.key); a != nil && a[0] != '{' {
			return failed(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s: the member %s of inputResponses is not an object", req.Method, q.key))
		}
	}
	s.mu.Lock()
	mine := s.by[state] == b
	if mine {
		delete(s.by, state)
		b.timer.Stop()
	}
	s.mu.Unlock()
	if !mine {
		return failed(errNoState) // another retry was faster
	}
	b.call.use(req)
	open := false
	for _, q := range b.questions() {
		if a := rawjson.Get(answers, q.key); a != nil {
			b.drop(q)
			q.answer <- session.Reply{Result: a}
		} else {
			open = true
		}
	}
	if open {
		b.poke() // ask again for what is missing (SEP-2322)
	}
	return b.wait(ctx, req.Call)
}

// perRequest are the params that differ between a request and its retry.
var perRequest = []string{"_meta", "inputResponses", "requestState"}

// alike reports whether two objects say the same, whatever their JSON looks
// like, apart from what concerns one request alone.
func alike(a, b json.RawMessage) bool { return bytes.Equal(canonical(a), canonical(b)) }

func canonical(raw json.RawMessage) []byte {
	var all map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&all) != nil {
		return raw // not an object, or absent
	}
	for _, member := range perRequest {
		delete(all, member)
	}
	text, err := json.Marshal(all)
	if err != nil { // what was decoded always encodes
		panic(err)
	}
	return text
}

// nowhere is the stream of a call between two requests of its client.
type nowhere struct{}

func (nowhere) Notify(string, json.RawMessage) {}
func (nowhere) Request(context.Context, string, json.RawMessage) (session.Reply, error) {
	return session.Reply{}, ErrNoRequests
}
