package launcher

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// This file is what the host sends within a session.

// outgoing is a frame for the sender.
type outgoing struct {
	frame *transportpb.HostFrame
	call  *call // nil: it is no request
}

// A call waits for its answer. Sent tells whether the server may have got it.
type call struct {
	sent  atomic.Int32
	reply chan *transportpb.Response // of capacity 1
}

// The states of call.sent. The sender claims a call before it sends it and the
// caller when it gives up, so that one who gave up in time is never sent.
const (
	waiting int32 = iota
	claimed
	withdrawn
)

// send is the sender: a stream that is blocked blocks it, and not the callers.
func (s *stream) send() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.cancelWake:
			if !s.sendCancels() {
				return
			}
		case o := <-s.out:
			if o.call != nil && !o.call.sent.CompareAndSwap(waiting, claimed) {
				continue
			}
			if err := s.client.Send(o.frame); err != nil {
				// The stream has ended, and the reader learns why. The
				// frame has not left.
				if o.call != nil {
					o.call.sent.Store(withdrawn)
				}
				return
			}
		}
	}
}

// sendCancels sends the cancellations that wait. They are few: one per call
// that is under way.
func (s *stream) sendCancels() bool {
	s.mu.Lock()
	cancels := s.cancels
	s.cancels = nil
	s.mu.Unlock()
	for _, c := range cancels {
		if s.client.Send(&transportpb.HostFrame{Frame: &transportpb.HostFrame_Cancel{Cancel: c}}) != nil {
			return false
		}
	}
	return true
}

// Call sends a request and waits for its answer.
func (s *stream) Call(ctx context.Context, req session.Request) (session.Reply, error) {
	if ctx.Err() != nil {
		return session.Reply{}, context.Cause(ctx)
	}
	size := len(req.Params)
	for name, value := range req.Headers {
		size += len(name) + len(value)
	}
	if f := tooLarge(size); f != nil {
		return session.Reply{}, f
	}
	id := s.next.Add(1)
	c := &call{reply: make(chan *transportpb.Response, 1)}
	s.mu.Lock()
	if s.calls == nil {
		s.mu.Unlock()
		<-s.done
		return session.Reply{}, s.lost(true)
	}
	s.calls[id] = c
	s.mu.Unlock()
	if req.Started != nil {
		req.Started(id)
	}
	o := outgoing{call: c, frame: &transportpb.HostFrame{Frame: &transportpb.HostFrame_Request{Request: &transportpb.Request{
		Id: id, Method: req.Method, Params: req.Params, Headers: req.Headers,
	}}}}
	select {
	case s.out <- o:
	case <-ctx.Done():
		s.abandon(id, nil)
		return session.Reply{}, context.Cause(ctx)
	case <-s.done:
		return session.Reply{}, s.lost(true)
	}
	select {
	case r := <-c.reply:
		return reply(r)
	case <-ctx.Done():
		cause := context.Cause(ctx)
		s.abandon(id, &transportpb.Cancel{Id: id, Reason: cause.Error()})
		return session.Reply{}, cause
	case <-s.done:
	}
	select {
	case r := <-c.reply: // it came just before the end
		return reply(r)
	default:
		return session.Reply{}, s.lost(c.sent.Load() != claimed)
	}
}

// abandon forgets a call whose caller has gone, and cancels it if it was sent.
func (s *stream) abandon(id uint64, cancel *transportpb.Cancel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[id]
	if c == nil {
		return // answered, or ended
	}
	delete(s.calls, id)
	if cancel == nil || c.sent.CompareAndSwap(waiting, withdrawn) {
		return
	}
	s.cancels = append(s.cancels, cancel)
	select {
	case s.cancelWake <- struct{}{}:
	default:
	}
}

// lost is the failure of a call that the session's end left without an answer.
// It is used after done.
func (s *stream) lost(undelivered bool) *session.Failure {
	f := session.Failuref(undelivered, "the session has ended: %s", s.end.Message)
	switch s.end.Class {
	case session.Lost:
		f.Reason = session.SessionLost
	case session.Auth:
		f.Reason = session.NeedsAuth
	}
	return f
}

var reasons = map[transportpb.TransportError_Reason]session.Reason{
	transportpb.TransportError_REASON_CONNECTION:    session.Connection,
	transportpb.TransportError_REASON_HTTP_STATUS:   session.HTTPStatus,
	transportpb.TransportError_REASON_SESSION_LOST:  session.SessionLost,
	transportpb.TransportError_REASON_AUTHORIZATION: session.NeedsAuth,
	transportpb.TransportError_REASON_OVERSIZE:      session.Oversize,
	transportpb.TransportError_REASON_INVALID:       session.Invalid,
}

// reply reads an answer. Of a oneof the plugin may have set nothing.
func reply(r *transportpb.Response) (session.Reply, error) {
	switch o := r.GetOutcome().(type) {
	case *transportpb.Response_Result:
		if len(o.Result) > 0 {
			return session.Reply{Result: o.Result}, nil
		}
	case *transportpb.Response_RpcError:
		return session.Reply{Error: &jsonrpc.Error{Code: o.RpcError.GetCode(), Message: o.RpcError.GetMessage(), Data: raw(o.RpcError.GetData())}}, nil
	case *transportpb.Response_TransportError:
		e := o.TransportError
		message := e.GetMessage()
		if message == "" {
			message = "the request failed, and the plugin did not say why"
		}
		return session.Reply{}, &session.Failure{
			Reason:      reasons[e.GetReason()],
			Message:     message,
			Undelivered: e.GetDelivered() == transportpb.TransportError_DELIVERED_NO,
		}
	}
	return session.Reply{}, &session.Failure{Reason: session.Invalid, Message: "the plugin answered without a result"}
}

// Notify queues a notification.
func (s *stream) Notify(method string, params json.RawMessage) error {
	if f := tooLarge(len(params)); f != nil {
		return f
	}
	return s.queue(&transportpb.HostFrame{Frame: &transportpb.HostFrame_Notification{Notification: &transportpb.Notification{
		Method: method, Params: params,
	}}})
}

// Answer queues the answer to a server's request.
func (s *stream) Answer(id json.RawMessage, r session.Reply) error {
	a := &transportpb.Answer{Id: id}
	size := len(r.Result)
	if r.Error != nil {
		size = len(r.Error.Message) + len(r.Error.Data)
		a.Outcome = &transportpb.Answer_RpcError{RpcError: &transportpb.RpcError{Code: r.Error.Code, Message: r.Error.Message, Data: r.Error.Data}}
	} else {
		a.Outcome = &transportpb.Answer_Result{Result: r.Result}
	}
	if f := tooLarge(size); f != nil {
		return f
	}
	return s.queue(&transportpb.HostFrame{Frame: &transportpb.HostFrame_Answer{Answer: a}})
}

// queue hands a frame to the sender without waiting.
func (s *stream) queue(frame *transportpb.HostFrame) error {
	select {
	case <-s.done:
		return s.lost(true)
	default:
	}
	select {
	case s.out <- outgoing{frame: frame}:
		return nil
	default:
		return session.Failuref(true, "the plugin takes no more messages: %d are waiting", queued)
	}
}
