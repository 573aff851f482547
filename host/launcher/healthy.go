package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/internal/rawjson"
)

// This file asks a session whether it still responds.

// stateless is the first MCP version without ping, in which server/discover is
// what every server answers (SEP-2575).
const stateless = "2026-07-28"

// healthTime bounds a check whose context has no deadline.
const healthTime = 10 * time.Second

// Healthy sends a ping. Some servers never answer it, or not well, so when that
// failed or half of the time is over another request is sent, and an answer to
// either will do, be it an error.
func (s *stream) Healthy(ctx context.Context) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(healthTime)
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()

	answers := make(chan error, 2)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	open := 0
	ask := func(method string) {
		open++
		asking.Go(func() { answers <- s.probe(ctx, method) })
	}
	first, second := s.questions()
	ask(first)
	half := time.NewTimer(time.Until(deadline) / 2)
	defer half.Stop()
	var err error
	for open > 0 {
		confirm := false
		select {
		case answer := <-answers:
			if answer == nil {
				return nil
			}
			open--
			err = answer
			confirm = ctx.Err() == nil && s.End() == nil
		case <-half.C:
			confirm = true
		}
		if confirm && second != "" {
			ask(second)
			second = ""
		}
	}
	return err
}

// probe makes one request. Any answer is good, and so is one that was too large
// to relay or no JSON-RPC: something lives there.
func (s *stream) probe(ctx context.Context, method string) error {
	_, err := s.Call(ctx, session.Request{Method: method, Params: s.meta()})
	if f, ok := errors.AsType[*session.Failure](err); ok && (f.Reason == session.Oversize || f.Reason == session.Invalid) {
		return nil
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("no answer to %s: %w", method, err)
	}
	return err
}

// questions are two requests that the server should answer, the second empty
// if there is none.
func (s *stream) questions() (first, second string) {
	first = "ping"
	if s.info.ProtocolVersion >= stateless {
		first = "server/discover"
	}
	for _, list := range []struct{ capability, method string }{
		{"tools", "tools/list"}, {"prompts", "prompts/list"}, {"resources", "resources/list"},
	} {
		if rawjson.Get(s.info.Capabilities, list.capability) != nil {
			return first, list.method
		}
	}
	return first, ""
}

// meta is what a stateless server wants to find in each request (SEP-2575).
func (s *stream) meta() json.RawMessage {
	if s.info.ProtocolVersion < stateless {
		return nil
	}
	open := s.spec.message(s.process.launcher.info)
	info := open.GetClientInfo()
	if len(info) == 0 {
		info = []byte("{}")
	}
	return fmt.Appendf(nil, `{"_meta":{"io.modelcontextprotocol/protocolVersion":%s,"io.modelcontextprotocol/clientInfo":%s,"io.modelcontextprotocol/clientCapabilities":%s}}`,
		rawjson.Quote(s.info.ProtocolVersion), info, open.GetClientCapabilities())
}
