package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// Bounds of what a server of 2026-07-28 may ask in one call. They are those of
// the SDKs' clients.
const (
	maxRounds = 10
	maxBusy   = 3  // results that ask for nothing but a retry: the server sheds load
	maxInputs = 64 // questions of one result
)

// fulfil sends a request of an older client to a server of 2026-07-28. As long
// as the server answers that it needs input (SEP-2322), the client is asked on
// its call's stream, as an older server would ask it, and the request goes out
// again with the answers. The client sees one call.
func (r *Relay) fulfil(ctx context.Context, req *request, in *call) session.Reply {
	busy := 0
	for round := 0; ; round++ {
		reply := r.exchange(ctx, req, in)
		if reply.Error != nil || !needsInput(reply.Result) {
			return reply
		}
		if round == maxRounds {
			return r.refuse(req, "server %q still asks for input after %d rounds", req.link.server, maxRounds)
		}
		questions, state := rawjson.Get(reply.Result, "inputRequests"), rawjson.Get(reply.Result, "requestState")
		var answers json.RawMessage
		if questions == nil || emptyObject(questions) {
			if busy++; busy > maxBusy {
				return r.refuse(req, "server %q is busy; try again later", req.link.server)
			}
			select {
			case <-time.After(time.Second << (busy - 1)):
			case <-ctx.Done():
				return r.unanswered(ctx, req.Call, req.link.server, context.Cause(ctx))
			}
		} else {
			var refusal *session.Reply
			if answers, refusal = r.collect(ctx, req, questions); refusal != nil {
				return *refusal
			}
		}
		for member, val := range map[string]json.RawMessage{"inputResponses": answers, "requestState": state} {
			req.edit(val, member)
		}
	}
}

// needsInput reports whether a result is no result yet. Large results are not
// searched through: what asks for input has no content.
func needsInput(result json.RawMessage) bool {
	const most = 1 << 20
	return len(result) <= most && bytes.Contains(result, []byte("input_required")) &&
		rawjson.Text(result, "resultType") == "input_required"
}

func emptyObject(raw json.RawMessage) bool {
	empty := true
	return rawjson.Fields(raw, func(string, json.RawMessage) bool { empty = false; return false }) == nil && empty
}

// collect asks the client all that a result asks for, side by side, and returns
// the inputResponses; or the reply that says why there are none.
func (r *Relay) collect(ctx context.Context, req *request, questions json.RawMessage) (json.RawMessage, *session.Reply) {
	type input struct {
		key, method string
		params      json.RawMessage
		reply       session.Reply
	}
	var all []*input
	err := rawjson.Fields(questions, func(key string, q json.RawMessage) bool {
		all = append(all, &input{key: key, method: rawjson.Text(q, "method"), params: rawjson.Get(q, "params")})
		return len(all) <= maxInputs
	})
	refused := func(format string, args ...any) (json.RawMessage, *session.Reply) {
		reply := r.refuse(req, format, args...)
		return nil, &reply
	}
	if err != nil || len(all) > maxInputs {
		return refused("server %q asks for input in a form that the host can't read", req.link.server)
	}
	for _, q := range all {
		if e := able(req.Client, q.method, q.params); e != nil {
			return refused("server %q asks for input: %s", req.link.server, e.Message)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	group, asking := errgroup.WithContext(ctx)
	for _, q := range all {
		group.Go(func() (err error) {
			q.reply, err = req.Stream.Request(asking, q.method, q.params)
			if err == nil && q.reply.Error != nil {
				err = q.reply.Error
			}
			if err != nil {
				return fmt.Errorf("%s: %w", q.method, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return refused("server %q asked for input, and the client gave none: %v", req.link.server, err)
	}
	out := []byte{'{'}
	for i, q := range all {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, rawjson.Quote(q.key)...), ':'), q.reply.Result...)
	}
	return append(out, '}'), nil
}

// refuse answers in the server's place that its questions lead nowhere: to a
// model, if it is a tool that was called.
func (r *Relay) refuse(req *request, format string, args ...any) session.Reply {
	return r.hostError(req.Call, jsonrpc.Errorf(codeUnavailable, format, args...).Message,
		facts{Server: req.link.server, Reason: "input needed", Sent: true})
}
