package relay

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// maxAsking bounds the questions of one server that are open at a time.
const maxAsking = 256

// needs is what a client must have declared to be asked.
var needs = map[string]string{
	"elicitation/create":     "elicitation",
	"sampling/createMessage": "sampling",
}

// Request implements session.Handler. A question goes to the client whose call
// caused it, on that call's stream, in a goroutine of its own; so the reader
// goes on, and any number of questions can be open. Where that client is not
// known the question is refused: nobody may be asked about another's call.
func (u upstream) Request(q session.ServerRequest) {
	srv, ok := u.r.cfg.Lookup(u.l.server, nil)
	if !ok {
		return
	}
	s := srv.Session()
	if s == nil {
		return // it ended just now
	}
	c, refusal := u.whom(q)
	if refusal == nil {
		refusal = u.ask(c, s, q)
	}
	if refusal == nil {
		return
	}
	u.r.cfg.Logger.Debug("a question of the server was refused", "server", u.l.server, "method", q.Method, "error", refusal)
	if u.l.refusing.Add(1) > maxAsking {
		u.l.refusing.Add(-1)
		return // a flood; the server may wait
	}
	u.r.background(func(context.Context) {
		defer u.l.refusing.Add(-1)
		u.answer(s, q, failed(refusal))
	})
}

// whom finds the call that a question belongs to.
func (u upstream) whom(q session.ServerRequest) (*call, *jsonrpc.Error) {
	if q.Method == "roots/list" {
		return nil, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound,
			`roots/list is not answered: server %q has one session for all clients, and the roots of one are not those of another; set session = "client" for it`, u.l.server)
	}
	need := needs[q.Method]
	able := func(c *call) bool { return need == "" || has(c.client.Capabilities(), need) }
	c := u.l.related(q.Related)
	if c == nil {
		c = u.l.only()
	}
	switch {
	case c == nil:
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest,
			`%s can't be passed on: server %q has one session for all clients, and it is not known whose call this belongs to; set session = "client" for it`, q.Method, u.l.server)
	case !able(c):
		return nil, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "%s can't be passed on: the client that is calling has not declared %s", q.Method, need)
	}
	return c, nil
}

// ask passes a question on and, in time, the answer back.
func (u upstream) ask(c *call, s session.Session, q session.ServerRequest) *jsonrpc.Error {
	l := u.l
	ctx, cancel := context.WithCancel(c.ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.ended:
		cancel()
		return jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "%s can't be passed on: the call that it belongs to has ended", q.Method)
	case len(l.asking) >= maxAsking:
		cancel()
		return jsonrpc.Errorf(codeUnavailable, "%s can't be passed on: server %q has %d questions open", q.Method, u.l.server, maxAsking)
	}
	o := &question{id: string(q.ID), cancel: cancel}
	begun := u.r.background(func(life context.Context) {
		stop := context.AfterFunc(life, cancel)
		reply, err := c.stream.Request(ctx, q.Method, q.Params)
		stop()
		cancel()
		l.mu.Lock()
		delete(l.asking, o)
		delete(c.questions, o)
		l.mu.Unlock()
		if err != nil {
			if o.withdrawn.Load() {
				return // nobody waits for an answer
			}
			reply = failed(unasked(q.Method, err))
		}
		u.answer(s, q, reply)
	})
	if !begun {
		cancel()
		return jsonrpc.Errorf(codeUnavailable, "%s can't be passed on: the host is shutting down", q.Method)
	}
	l.asking[o] = struct{}{}
	if c.questions == nil {
		c.questions = map[*question]struct{}{}
	}
	c.questions[o] = struct{}{}
	return nil
}

// question is one that a client has been asked on a server's behalf.
type question struct {
	id        string // the server's, as JSON
	cancel    context.CancelFunc
	withdrawn atomic.Bool // by the server
}

// withdraw ends a question that the server no longer wants answered.
func (r *Relay) withdraw(l *link, id json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for o := range l.asking {
		if id != nil && o.id == string(id) {
			o.withdrawn.Store(true)
			o.cancel()
		}
	}
}

func (u upstream) answer(s session.Session, q session.ServerRequest, reply session.Reply) {
	if err := s.Answer(q.ID, reply); err != nil {
		u.r.cfg.Logger.Debug("an answer was not delivered", "server", u.l.server, "method", q.Method, "error", err)
	}
}

// unasked says why a client gave no answer.
func unasked(method string, err error) *jsonrpc.Error {
	switch {
	case errors.Is(err, ErrNoRequests):
		return jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "%s can't be passed on: %v", method, err)
	case errors.Is(err, context.Canceled):
		return jsonrpc.Errorf(codeUnavailable, "%s was not answered: the call that it belongs to has ended", method)
	}
	return jsonrpc.Errorf(codeUnavailable, "%s was not answered by the client: %v", method, err)
}

// has reports whether ClientCapabilities or ServerCapabilities name one.
func has(capabilities json.RawMessage, name string) bool {
	c := rawjson.Get(capabilities, name)
	return c != nil && c[0] == '{'
}
