package launcher

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// This file is what the host sends within a session.

// outgoing is a frame to be sent.
type outgoing struct {
	frame *transportpb.HostFrame
	size  int   // of its payload
	call  *call // nil: it is no request
}

// A call waits for its answer. Sent tells whether the server may have got it.
type call struct {
	sent  atomic.Int32
	mark  atomic.Uint64              // line.total when it was sent
	reply chan *transportpb.Response // of capacity 1
}

// The states of call.sent. The sender claims a call before it sends it and the
// caller when it gives up, so that one who gave up in time is never sent.
const (
	waiting int32 = iota
	claimed
	withdrawn
)

// A line is the sending half of the stream.
//
// A frame that certainly does not block is sent by its caller, which saves a
// change of goroutines. GRPC takes 64 KiB before it waits for the socket, and an
// answer proves that everything up to its request has left; so what was sent
// since then must be less. All other frames go through the sender, since a
// caller that blocks in gRPC could not leave when its context ends.
type line struct {
	queued atomic.Int32 // frames in the queue, or taken from it and not yet sent
	proven atomic.Uint64

	mu    sync.Mutex // held while sending
	total uint64     // bytes sent, about
}

const (
	safelyBuffered = 32 << 10
	frameOverhead  = 256 // allowed for what is around a payload
)

// sendNow sends a frame if that cannot block, and reports whether it did.
func (s *stream) sendNow(o outgoing) bool {
	if s.line.queued.Load() > 0 || !s.line.mu.TryLock() {
		return false
	}
	defer s.line.mu.Unlock()
	unproven := s.line.total - s.line.proven.Load()
	if s.line.queued.Load() > 0 || unproven+uint64(o.size+frameOverhead) > safelyBuffered {
		return false
	}
	_ = s.transmit(o) // of an error the reader learns the reason
	return true
}

// transmit sends a frame. The caller holds line.mu. An error says that the
// stream has ended and the frame has not left.
func (s *stream) transmit(o outgoing) error {
	s.line.total += uint64(o.size + frameOverhead)
	if o.call != nil {
		if !o.call.sent.CompareAndSwap(waiting, claimed) {
			return nil
		}
		o.call.mark.Store(s.line.total)
	}
	err := s.client.Send(o.frame)
	if err != nil && o.call != nil {
		o.call.sent.Store(withdrawn)
	}
	return err
}

// answered notes that all that was sent up to c has left.
func (l *line) answered(c *call) {
	if mark := c.mark.Load(); mark > l.proven.Load() { // the reader alone stores
		l.proven.Store(mark)
	}
}

// enqueue hands a frame to the sender. It waits for room until ctx or the
// session ends.
func (s *stream) enqueue(ctx context.Context, o outgoing) bool {
	s.line.queued.Add(1)
	select {
	case s.out <- o:
		return true
	case <-ctx.Done():
	case <-s.done:
	}
	s.line.queued.Add(-1)
	return false
}

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
			s.line.mu.Lock()
			err := s.transmit(o)
			s.line.mu.Unlock()
			s.line.queued.Add(-1)
			if err != nil {
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
	s.line.mu.Lock()
	defer s.line.mu.Unlock()
	for _, c := range cancels {
		if s.transmit(outgoing{frame: &transportpb.HostFrame{Frame: &transportpb.HostFrame_Cancel{Cancel: c}}}) != nil {
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
	o := outgoing{call: c, size: size, frame: &transportpb.HostFrame{Frame: &transportpb.HostFrame_Request{Request: &transportpb.Request{
		Id: id, Method: req.Method, Params: req.Params, Headers: req.Headers,
	}}}}
	if !s.sendNow(o) && !s.enqueue(ctx, o) {
		s.abandon(id, nil)
		if ctx.Err() != nil {
			return session.Reply{}, context.Cause(ctx)
		}
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
	return s.queue(outgoing{size: len(params), frame: &transportpb.HostFrame{Frame: &transportpb.HostFrame_Notification{Notification: &transportpb.Notification{
		Method: method, Params: params,
	}}}})
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
	return s.queue(outgoing{size: size, frame: &transportpb.HostFrame{Frame: &transportpb.HostFrame_Answer{Answer: a}}})
}

// queue hands a frame to the sender without waiting.
func (s *stream) queue(o outgoing) error {
	select {
	case <-s.done:
		return s.lost(true)
	default:
	}
	s.line.queued.Add(1)
	select {
	case s.out <- o:
		return nil
	default:
		s.line.queued.Add(-1)
		return session.Failuref(true, "the plugin takes no more messages: %d are waiting", queued)
	}
}
