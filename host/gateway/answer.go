package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// An answer is what a request is answered with. Extra, if not nil, is text of
// members to add at the beginning of the result, which then is an object.
type answer struct {
	status int // of the HTTP response, if the answer is all of it
	id     json.RawMessage
	reply  session.Reply
	extra  []byte
}

// message returns the answer as one message.
func (a *answer) message() jsonrpc.Message {
	m := jsonrpc.Message{ID: a.id, Result: a.reply.Result, Error: a.reply.Error}
	if a.extra != nil {
		m.Result = append(a.open(make([]byte, 0, len(a.extra)+len(m.Result)+2)), a.rest()...)
	}
	return m
}

// open appends the beginning of a result with extra members; rest is what
// follows.
func (a *answer) open(dst []byte) []byte {
	dst = append(append(dst, '{'), a.extra...)
	if rest := a.rest(); rest[0] != '}' {
		dst = append(dst, ',')
	}
	return dst
}

func (a *answer) rest() []byte { return afterSpace(afterSpace(a.reply.Result)[1:]) }

// large is the size from which a result is not copied into one buffer with its
// envelope.
const large = 32 << 10

// write writes the answer as the whole of a response.
func (a *answer) write(w http.ResponseWriter) {
	h := w.Header()
	h["Content-Type"] = typeJSON
	h["X-Content-Type-Options"] = nosniff
	b := buffers.Get().(*[]byte)
	defer putBuffer(b)
	if a.reply.Error != nil || len(a.reply.Result) < large {
		m := jsonrpc.Message{ID: a.id, Result: a.reply.Result, Error: a.reply.Error}
		if a.extra == nil {
			*b = m.Append((*b)[:0])
		} else {
			*b = append(append(a.open(a.envelope((*b)[:0])), a.rest()...), '}')
		}
		a.header(w, len(*b))
		_, _ = w.Write(*b) // a client that is gone needs no answer
		return
	}
	rest := []byte(a.reply.Result)
	*b = a.envelope((*b)[:0])
	if a.extra != nil {
		*b, rest = a.open(*b), a.rest()
	}
	n := len(*b) + len(rest) + 1
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(stall(n))) // not every ResponseWriter can
	a.header(w, n)
	for _, part := range [...][]byte{*b, rest, {'}'}} {
		if _, err := w.Write(part); err != nil {
			return
		}
	}
}

func (a *answer) envelope(dst []byte) []byte {
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), a.id...)
	return append(dst, `,"result":`...)
}

// header sends the header of a response of n bytes. Net/http knows the length
// of small ones by itself.
func (a *answer) header(w http.ResponseWriter, n int) {
	if n > 2048 {
		w.Header()["Content-Length"] = []string{strconv.Itoa(n)}
	}
	if a.status != 0 && a.status != http.StatusOK {
		w.WriteHeader(a.status)
	}
}

func afterSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\r' || b[0] == '\t') {
		b = b[1:]
	}
	return b
}
