package shared

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// receive takes the host's frames until the stream ends. It never waits for
// the server.
func (s *session) receive() {
	closing := false
	closeOnce := func() {
		if !closing {
			closing = true
			close(s.closed)
		}
	}
	for {
		f, err := s.stream.Recv()
		if errors.Is(err, io.EOF) {
			closeOnce() // the host has nothing more to say
			return
		}
		if err != nil {
			s.cancel(err)
			return
		}
		switch f := f.Frame.(type) {
		case *transportpb.HostFrame_Request:
			s.request(f.Request)
		case *transportpb.HostFrame_Cancel:
			s.withdraw(f.Cancel)
		case *transportpb.HostFrame_Notification:
			s.note(f.Notification)
		case *transportpb.HostFrame_Answer:
			s.answer(f.Answer)
		case *transportpb.HostFrame_Close:
			closeOnce()
		default:
			s.about.Logger.Warn("the host sent a frame that this plugin does not know")
		}
	}
}

func (s *session) request(r *transportpb.Request) {
	if !s.calls.add(WithHeaders(s.ctx, r.Headers), r.Id) {
		s.about.Logger.Error("the host used the id of a request twice", "id", r.Id)
		return
	}
	m := jsonrpc.Message{ID: strconv.AppendUint(nil, r.Id, 10), Method: r.Method, Params: payload(r.Params)}
	if s.out.push(outgoing{id: r.Id, msg: m}, false) || !s.calls.take(r.Id) {
		return
	}
	s.fail(r.Id, &WriteError{
		Reason:    transportpb.TransportError_REASON_CONNECTION,
		Delivered: transportpb.TransportError_DELIVERED_NO,
		Message:   "too many messages wait for the server, which does not read its input",
	})
}

// withdraw makes a call forgotten, and tells the server if it knows of it.
func (s *session) withdraw(c *transportpb.Cancel) {
	sent, ok := s.calls.remove(c.Id)
	if !ok || !sent {
		return
	}
	params := strconv.AppendUint([]byte(`{"requestId":`), c.Id, 10)
	if c.Reason != "" {
		params = append(append(params, `,"reason":`...), rawjson.Quote(c.Reason)...)
	}
	s.push(jsonrpc.Message{Method: "notifications/cancelled", Params: append(params, '}')}, true)
}

func (s *session) note(n *transportpb.Notification) {
	s.push(jsonrpc.Message{Method: n.Method, Params: payload(n.Params)}, false)
}

func (s *session) answer(a *transportpb.Answer) {
	m := jsonrpc.Message{ID: a.Id}
	if e := a.GetRpcError(); e != nil {
		m.Error = &jsonrpc.Error{Code: e.Code, Message: e.Message, Data: payload(e.Data)}
	} else {
		m.Result = payload(a.GetResult())
	}
	s.push(m, true)
}

// push queues a message that nobody waits for.
func (s *session) push(m jsonrpc.Message, needed bool) {
	if !s.out.push(outgoing{msg: m}, needed) {
		s.about.Logger.Warn("dropped a message to the server, which does not read its input", "method", m.Method)
	}
}

// payload is nil for the empty bytes that stand for "none" on the wire.
func payload(b []byte) json.RawMessage {
	if len(b) == 0 {
		return nil
	}
	return b
}

// deliver gives queued messages to conn until the session ends. Requests get
// the members of meta; if that is nil the session is of an older protocol, and
// they lose those members that only the newer one knows.
func (s *session) deliver(conn Conn, meta json.RawMessage) {
	s.out.run(func(m outgoing) {
		ctx := context.Context(s.ctx)
		if m.id != 0 {
			var wanted bool
			if ctx, wanted = s.calls.sending(m.id); !wanted {
				return
			}
		}
		switch {
		case !m.msg.IsRequest():
		case meta != nil:
			m.msg.Params = withMeta(m.msg.Params, meta)
		default:
			m.msg.Params = withoutMeta(m.msg.Params)
		}
		err := conn.Write(ctx, &m.msg)
		if err == nil {
			return
		}
		failed, alone := errors.AsType[*WriteError](err)
		switch {
		case alone && m.id != 0:
			if s.calls.take(m.id) {
				s.fail(m.id, failed)
			}
		case alone:
			s.about.Logger.Debug("a message did not reach the server", "method", m.msg.Method, "error", err)
		case ctx.Err() != nil:
			// Withdrawn, or the session has ended.
		default:
			select {
			case s.broken <- err:
			default:
			}
		}
	})
}
