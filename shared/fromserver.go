package shared

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// converse connects to the server and relays what it sends, in the order of
// reading, until the connection fails. The error says why.
func (s *session) converse() error {
	h := handshake{s: s}
	init, err := h.connect()
	if err != nil {
		return err
	}
	var meta json.RawMessage
	sub := subscription{s: s}
	if init.ProtocolVersion >= discoverVersions[0] {
		meta = s.hello.meta(init.ProtocolVersion)
		sub.want(init.Capabilities)
	}
	init.Instructions = strings.ToValidUTF8(init.Instructions, "\uFFFD")
	s.send(&transportpb.PluginFrame{Frame: &transportpb.PluginFrame_Init{Init: init}})
	for _, f := range h.held {
		s.send(f)
	}
	go s.deliver(h.conn, meta)
	sub.listen()
	defer sub.stop()
	for {
		in, err := read(s.ctx, h.conn)
		if err != nil {
			return err
		}
		switch {
		case in.Failure != nil && string(in.ID) == string(listenID):
			sub.ended(in.Failure)
		case in.IsResponse() && string(in.ID) == string(listenID):
			if in.Error != nil {
				sub.refused(in.Error)
			} else {
				sub.ended(nil)
			}
		case in.Method == "notifications/subscriptions/acknowledged" && sub.wanted():
			sub.acknowledged()
		default:
			s.relay(&in)
		}
	}
}

// relay passes one message from the server on.
func (s *session) relay(in *Incoming) {
	in.clean()
	if in.Failure == nil && !in.IsResponse() {
		switch {
		case in.IsRequest() && in.Method == "ping":
			s.push(jsonrpc.Message{ID: append(json.RawMessage(nil), in.ID...)}, true)
		case len(in.Params) > s.about.MaxMessageBytes:
			s.about.Logger.Warn("dropped a message of the server over the size limit", "method", in.Method, "bytes", len(in.Params))
		default:
			s.send(s.unasked(in))
		}
		return
	}
	id := callID(in.ID)
	if id == 0 || !s.calls.take(id) {
		// Mostly the late answer to a call that was withdrawn.
		if in.ID == nil && in.Error != nil {
			s.about.Logger.Warn("the server could not read a message", "error", in.Error)
		} else {
			s.about.Logger.Debug("dropped an answer that nobody waits for", "id", clip(string(in.ID), 64))
		}
		return
	}
	switch {
	case in.Failure != nil:
		s.fail(id, in.Failure)
	case in.Error != nil && len(in.Error.Data) <= s.about.MaxMessageBytes:
		s.respond(&transportpb.Response{Id: id, Outcome: &transportpb.Response_RpcError{RpcError: &transportpb.RpcError{
			Code: in.Error.Code, Message: in.Error.Message, Data: in.Error.Data,
		}}})
	case in.Error == nil && len(in.Result) <= s.about.MaxMessageBytes:
		s.respond(&transportpb.Response{Id: id, Outcome: &transportpb.Response_Result{Result: in.Result}})
	default:
		s.fail(id, oversize(s.about.MaxMessageBytes))
	}
}

// clean replaces what is not UTF-8 in the payload, as JSON must be (RFC 8259,
// section 8.1). Some clients end their session over a single such byte, and so
// with all servers.
func (in *Incoming) clean() {
	in.Params, in.Result = validText(in.Params), validText(in.Result)
	if in.Error != nil {
		in.Error.Data = validText(in.Error.Data)
	}
}

func validText(text json.RawMessage) json.RawMessage {
	if utf8.Valid(text) {
		return text
	}
	return bytes.ToValidUTF8(text, []byte("\uFFFD"))
}

// unasked makes the frame of a request or notification of the server.
func (s *session) unasked(in *Incoming) *transportpb.PluginFrame {
	if in.IsRequest() {
		return &transportpb.PluginFrame{Frame: &transportpb.PluginFrame_Request{Request: &transportpb.ServerRequest{
			Id: in.ID, Method: in.Method, Params: in.Params, RelatedRequest: in.Related,
		}}}
	}
	return &transportpb.PluginFrame{Frame: &transportpb.PluginFrame_Notification{Notification: &transportpb.Notification{
		Method: in.Method, Params: in.Params, RelatedRequest: in.Related,
	}}}
}

func (s *session) respond(r *transportpb.Response) {
	s.send(&transportpb.PluginFrame{Frame: &transportpb.PluginFrame_Response{Response: r}})
}

// fail reports that a call has no answer. The caller has taken it from calls.
func (s *session) fail(id uint64, e *WriteError) {
	message := strings.ToValidUTF8(e.Message, "\uFFFD")
	if message == "" {
		message = "the request failed for an unknown reason"
	}
	s.respond(&transportpb.Response{Id: id, Outcome: &transportpb.Response_TransportError{TransportError: &transportpb.TransportError{
		Message: message, Delivered: e.Delivered, Reason: e.Reason,
	}}})
}

func oversize(limit int) *WriteError {
	return &WriteError{
		Reason:    transportpb.TransportError_REASON_OVERSIZE,
		Delivered: transportpb.TransportError_DELIVERED_UNKNOWN,
		Message:   fmt.Sprintf("the server's answer is larger than the limit of %d bytes", limit),
	}
}
