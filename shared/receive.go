package shared

import (
	"fmt"

	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// Receive takes apart a text that a server sent: a message, or a batch of
// several (protocol 2025-03-26). Take gets each message, which aliases text.
//
// A message that can't be read fails the requests that it means to answer, as
// far as it shows which: take gets a Failure for each. Otherwise nobody knows
// whom it concerns, and the error says what is wrong with the first such part.
// Whoever waits for it waits on, since a server may print anything.
func Receive(text []byte, take func(Incoming)) error {
	if !jsonrpc.IsBatch(text) {
		return receiveOne(text, take)
	}
	all, err := rawjson.Elements(jsonrpc.TrimMark(text))
	if err != nil {
		return unreadable(text, err, take)
	}
	var first error
	for _, one := range all {
		if err := receiveOne(one, take); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func receiveOne(text []byte, take func(Incoming)) error {
	m, err := jsonrpc.Parse(text)
	if err != nil {
		return unreadable(text, err, take)
	}
	take(Incoming{Message: m})
	return nil
}

// unreadable fails the requests that a text means to answer. It returns why if
// there are none.
func unreadable(text []byte, why error, take func(Incoming)) error {
	var o jsonrpc.Outline
	o.Scan(text)
	ids := o.Answers()
	if len(ids) == 0 {
		return why
	}
	failure := &WriteError{
		Reason:    transportpb.TransportError_REASON_INVALID,
		Delivered: transportpb.TransportError_DELIVERED_UNKNOWN,
		Message:   fmt.Sprintf("the server's answer cannot be read: %v", why),
	}
	for _, id := range ids {
		take(Incoming{Message: jsonrpc.Message{ID: id}, Failure: failure})
	}
	return nil
}
