package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

// longest is the bound of a call: it may be sent twice and wait for a session
// before each, or for what a check of it says, and once for the check of the one
// that failed it.
const longest = 2*(callLimit+linger+checking) + 3*callWait

// call starts calls that are alike.
func (h *history) call() {
	n := []int{1, 3, 30}[h.rng.IntN(3)]
	opt := supervisor.CallOptions{Idempotent: h.rng.IntN(2) == 0}
	patience := []time.Duration{
		time.Hour, time.Hour, time.Hour, 0, time.Millisecond, time.Second, 3 * time.Second, checking, 10 * time.Second,
	}[h.rng.IntN(9)]
	h.step("%d calls; idempotent: %v, given up after %s", n, opt.Idempotent, patience)
	for i := range n {
		h.place(fmt.Sprintf("%d.%d", h.steps, i), opt, patience)
	}
}

// place starts one call and has what becomes of it judged.
func (h *history) place(id string, opt supervisor.CallOptions, patience time.Duration) {
	s := h.server()
	h.callers.Go(func() {
		ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errGaveUp)
		defer cancel()
		at := time.Now()
		params := json.RawMessage(fmt.Sprintf(`{"call":%q}`, id))
		reply, err := s.turn.Call(ctx, session.Request{Method: "tools/call", Params: params}, opt)
		took := time.Since(at)
		if err == nil {
			h.event("call is answered")
		} else {
			h.event("call fails: %v", err)
		}
		h.mu.Lock()
		acted := h.acted[string(params)]
		h.mu.Unlock()
		for _, wrong := range judge(params, opt.Idempotent, reply, err, acted) {
			h.fault("call %s %s (error: %v)", id, wrong, err)
		}
		if took > min(patience, longest) {
			h.fault("call %s took %s: %v", id, took, err)
		}
		if errors.Is(err, errGaveUp) && took < patience {
			h.fault("call %s was given up after %s, its caller had %s", id, took, patience)
		}
	})
}

// judge tells what is wrong with a call's outcome, given how often a server
// may have acted on it.
func judge(params json.RawMessage, idempotent bool, reply session.Reply, err error, acted int) (wrong []string) {
	if acted > 2 || acted > 1 && !idempotent {
		wrong = append(wrong, fmt.Sprintf("was sent %d times", acted))
	}
	if err == nil {
		if acted == 0 {
			wrong = append(wrong, "was answered by nobody")
		}
		got := []byte(reply.Result)
		if reply.Error != nil {
			got = []byte(reply.Error.Message)
		}
		if !bytes.Equal(got, params) {
			wrong = append(wrong, fmt.Sprintf("got the answer %s", got))
		}
		return wrong
	}
	unsent := false // the error says that no server acted on it
	switch e := err.(type) {
	case *supervisor.ReconnectingError, *supervisor.OpenError, *supervisor.UnavailableError:
		unsent = true
	case *supervisor.OutcomeUnknownError:
		if e.Idempotent != idempotent {
			wrong = append(wrong, "is told another nature")
		}
	case *supervisor.TimeoutError, *supervisor.AuthNeededError, *supervisor.RefusedError:
	default:
		if err == errGaveUp {
			return wrong
		}
		wrong = append(wrong, fmt.Sprintf("ends with a %T", err))
	}
	if unsent && acted > 0 {
		wrong = append(wrong, "was sent and its caller is told that it was not")
	}
	if !strings.Contains(err.Error(), `"x"`) {
		wrong = append(wrong, "ends with an error that does not name the server")
	}
	return wrong
}

// ask makes a call and waits for its outcome.
func (h *history) ask(s *server, patience time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errGaveUp)
	defer cancel()
	_, err := s.sup.Call(ctx, session.Request{Method: "tools/call", Params: json.RawMessage(`{"call":"ask"}`)}, supervisor.CallOptions{})
	return err
}
