package relay

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
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
	"roots/list":             "roots",
}

// able returns why a client can't be asked, nil if it can: it must have declared
// what the question needs, to the mode of an elicitation (MCP 2025-11-25,
// client/elicitation) and the tools of a sampling (client/sampling).
func able(c Client, method string, params json.RawMessage) *jsonrpc.Error {
	need := needs[method]
	declared := rawjson.Get(c.Capabilities(), need)
	missing := ""
	switch {
	case need == "":
		return nil
	case len(declared) == 0 || declared[0] != '{':
		return jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "%s can't be passed on: the client that is calling has not declared %s", method, need)
	case need == "elicitation" && rawjson.Text(params, "mode") == "url":
		if rawjson.Get(declared, "url") == nil {
			missing = "elicitation.url"
		}
	case need == "elicitation":
		if rawjson.Get(declared, "form") == nil && rawjson.Get(declared, "url") != nil {
			missing = "elicitation.form"
		}
	case need == "sampling" && (rawjson.Get(params, "tools") != nil || rawjson.Get(params, "toolChoice") != nil):
		if rawjson.Get(declared, "tools") == nil {
			missing = "sampling.tools"
		}
	}
	if missing == "" {
		return nil
	}
	return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s can't be passed on: the client that is calling has not declared %s", method, missing)
}

// Request implements session.Handler. A question goes to the client whose call
// caused it, on that call's stream, in a goroutine of its own; so the reader
// goes on, and any number of questions can be open. Where that client is not
// known the question is refused: nobody may be asked about another's call.
func (u upstream) Request(q session.ServerRequest) {
	srv := u.asker()
	if srv == nil {
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
	reply := failed(refusal)
	if refusal == noRoots {
		reply = session.Reply{Result: json.RawMessage(`{"roots":[]}`)}
	} else {
		u.r.cfg.Logger.Debug("a question of the server was refused", "server", u.l.server, "method", q.Method, "error", refusal)
	}
	if u.l.refusing.Add(1) > maxAsking {
		u.l.refusing.Add(-1)
		return // a flood; the server may wait
	}
	u.r.background(func(context.Context) {
		defer u.l.refusing.Add(-1)
		u.answer(s, q, reply)
	})
}

// noRoots stands for the answer that there are no roots.
var noRoots = jsonrpc.Errorf(jsonrpc.CodeInternalError, "no roots")

// whom finds the call that a question belongs to. In a client's own session
// that is any call of its, or none (nil): it is always that client who is
// asked.
func (u upstream) whom(q session.ServerRequest) (*call, *jsonrpc.Error) {
	c := u.l.related(q.Related)
	if c == nil {
		c = u.l.only()
	}
	if owner := u.l.owner; owner != nil {
		return c, able(owner, q.Method, q.Params)
	}
	own := u.r.cfg.Private != nil && u.r.cfg.Private(u.l.server)
	switch {
	case q.Method == "roots/list" && own:
		return nil, noRoots
	case q.Method == "roots/list":
		return nil, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound,
			`roots/list is not answered: server %q has one session for all clients, and the roots of one are not those of another; set session = "client" for it`, u.l.server)
	case c == nil && own:
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest,
			`%s can't be passed on: this session with server %q is that of all clients without a session, and it is not known whose call this belongs to`, q.Method, u.l.server)
	case c == nil:
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest,
			`%s can't be passed on: server %q has one session for all clients, and it is not known whose call this belongs to; set session = "client" for it`, q.Method, u.l.server)
	}
	return c, able(c.client(), q.Method, q.Params)
}

// ask passes a question on and, in time, the answer back. The call is nil for a
// question to the owner of the session that belongs to no call.
func (u upstream) ask(c *call, s session.Session, q session.ServerRequest) *jsonrpc.Error {
	l := u.l
	life := u.r.ctx
	var way asker
	switch {
	case c == nil:
		var ok bool
		if way, ok = l.owner.(asker); !ok {
			return jsonrpc.Errorf(codeUnavailable, "%s can't be passed on: the client has no stream for it", q.Method)
		}
	case c.bridge != nil:
		life, way = c.ctx, asking(c.bridge.ask)
	default:
		life, way = c.ctx, c.front.Load().stream
	}
	ctx, cancel := context.WithTimeout(life, patience)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c != nil && c.ended:
		cancel()
		return jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "%s can't be passed on: the call that it belongs to has ended", q.Method)
	case len(l.asking) >= maxAsking:
		cancel()
		return jsonrpc.Errorf(codeUnavailable, "%s can't be passed on: server %q has %d questions open", q.Method, u.l.server, maxAsking)
	}
	o := &question{id: string(q.ID), cancel: cancel}
	begun := u.r.background(func(life context.Context) {
		stop := context.AfterFunc(life, cancel)
		over := make(chan struct{})
		var watch sync.WaitGroup
		watch.Go(func() {
			select {
			case <-s.Done(): // nobody is left to answer
				cancel()
			case <-over:
			}
		})
		reply, err := way.Request(ctx, q.Method, q.Params)
		close(over)
		watch.Wait()
		stop()
		cancel()
		l.mu.Lock()
		delete(l.asking, o)
		if c != nil {
			delete(c.questions, o)
		}
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
	if c == nil {
		return nil
	}
	if c.questions == nil {
		c.questions = map[*question]struct{}{}
	}
	c.questions[o] = struct{}{}
	return nil
}

// An asker takes questions: a call's stream, or a client whose session has a
// stream of its own.
type asker interface {
	Request(ctx context.Context, method string, params json.RawMessage) (session.Reply, error)
}

type asking func(ctx context.Context, method string, params json.RawMessage) (session.Reply, error)

func (a asking) Request(ctx context.Context, method string, params json.RawMessage) (session.Reply, error) {
	return a(ctx, method, params)
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
	case errors.Is(err, context.DeadlineExceeded):
		return jsonrpc.Errorf(codeUnavailable, "%s was not answered by the client within %v", method, patience)
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
