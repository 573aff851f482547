// Package jsonrpc reads and writes JSON-RPC 2.0 envelopes and leaves their
// payloads alone.
//
// Ids, params, results and error data stay the bytes that the peer sent. The
// MCP SDK's own types decode ids to float64 or string and check nesting twice;
// a relay needs neither.
package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/hermes-host/hermes-host/internal/rawjson"
)

// Error codes of JSON-RPC 2.0, section 5.1.
const (
	CodeParseError     = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternalError  = -32603
)

// ErrInvalid is wrapped by errors about text that is JSON but no JSON-RPC
// message. Text that is not even JSON gives an error that does not wrap it.
var ErrInvalid = errors.New("not a JSON-RPC message")

// Message is one request, notification or response.
//
//	request:      Method and ID
//	notification: Method without ID
//	response:     ID with Result or Error
type Message struct {
	ID     json.RawMessage // a JSON number or string; nil if absent
	Method string
	Params json.RawMessage // nil if absent
	Result json.RawMessage // nil if absent
	Error  *Error
}

// IsRequest reports whether m wants an answer.
func (m *Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification reports whether m is a notification.
func (m *Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// IsResponse reports whether m is an answer.
func (m *Message) IsResponse() bool { return m.Method == "" }

// Error is a JSON-RPC error object.
type Error struct {
	Code    int64
	Message string
	Data    json.RawMessage // nil if absent
}

// Error returns the message and the code.
func (e *Error) Error() string {
	return fmt.Sprintf("%s (code %d)", e.Message, e.Code)
}

// Errorf returns an error object without data.
func Errorf(code int64, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Parse reads one message. The result aliases data, which the caller must not
// change afterwards. The whole text is validated; a byte order mark before it is
// ignored. A member of the envelope that occurs twice is refused, since readers
// differ in which one counts. Batches (protocol 2025-03-26) are arrays: see IsBatch.
func Parse(data []byte) (Message, error) {
	data = TrimMark(data)
	var at [6]rawjson.Span
	if err := rawjson.Find(data, at[:], "jsonrpc", "id", "method", "params", "result", "error"); err != nil {
		switch {
		case !errors.Is(err, rawjson.ErrSyntax):
			return Message{}, fmt.Errorf("%w: %v", ErrInvalid, err)
		case rawjson.Check(data) == nil:
			return Message{}, fmt.Errorf("%w: it is no object", ErrInvalid)
		}
		return Message{}, err
	}
	var f [6]json.RawMessage
	for i, span := range at {
		if span.To > 0 {
			f[i] = span.Of(data)
		}
	}
	m := Message{ID: f[1], Method: rawjson.Unquote(f[2]), Params: f[3], Result: f[4]}
	if rawjson.Unquote(f[0]) != "2.0" {
		return m, fmt.Errorf(`%w: its "jsonrpc" is not "2.0"`, ErrInvalid)
	}
	if m.ID != nil && !validID(m.ID) {
		if string(m.ID) != "null" || f[2] != nil {
			return m, fmt.Errorf("%w: its id is neither a string nor a number", ErrInvalid)
		}
		// An answer to something that the peer could not read.
		m.ID = nil
	}
	if string(m.Params) == "null" {
		m.Params = nil
	}
	if f[5] != nil && string(f[5]) != "null" {
		m.Error = parseError(f[5])
	}
	switch {
	case f[2] != nil && m.Method == "":
		return m, fmt.Errorf("%w: its method is no name", ErrInvalid)
	case m.Params != nil && m.Params[0] != '{' && m.Params[0] != '[':
		return m, fmt.Errorf("%w: its params are neither an object nor an array", ErrInvalid)
	case m.Method == "" && m.Result == nil && m.Error == nil:
		return m, fmt.Errorf("%w: it has no method, result or error", ErrInvalid)
	}
	return m, nil
}

// TrimMark returns data without a byte order mark at its start, which a reader
// may ignore (RFC 8259, section 8.1). Programs on Windows like to write one.
func TrimMark(data []byte) []byte { return bytes.TrimPrefix(data, []byte(byteOrderMark)) }

// IsBatch reports whether data is a JSON array.
func IsBatch(data []byte) bool {
	for _, c := range TrimMark(data) {
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		}
		return c == '['
	}
	return false
}

func validID(id []byte) bool {
	return id[0] == '"' || id[0] == '-' || '0' <= id[0] && id[0] <= '9'
}

func parseError(raw []byte) *Error {
	var f [3]json.RawMessage
	if rawjson.Members(raw, f[:], "code", "message", "data") != nil {
		// Some servers send a bare string; it is still their answer.
		return &Error{Code: CodeInternalError, Message: "malformed error object", Data: raw}
	}
	code, err := strconv.ParseInt(string(f[0]), 10, 64)
	if err != nil {
		var number float64
		if json.Unmarshal(f[0], &number) != nil {
			number = CodeInternalError
		}
		code = int64(number)
	}
	message := rawjson.Unquote(f[1])
	if message == "" { // it must be there, and people are shown nothing else
		message = "an error without a message"
	}
	return &Error{Code: code, Message: message, Data: f[2]}
}

// Append appends m's text to dst, without a line end. A response without
// result and error is written with the result {}.
func (m *Message) Append(dst []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if m.ID != nil {
		dst = append(append(dst, `,"id":`...), m.ID...)
	}
	if m.Method != "" {
		dst = append(append(dst, `,"method":`...), rawjson.Quote(m.Method)...)
		if m.Params != nil {
			dst = append(append(dst, `,"params":`...), m.Params...)
		}
		return append(dst, '}')
	}
	if m.ID == nil {
		dst = append(dst, `,"id":null`...)
	}
	switch {
	case m.Error != nil:
		dst = append(m.Error.append(append(dst, `,"error":`...)), '}')
	case m.Result != nil:
		dst = append(append(append(dst, `,"result":`...), m.Result...), '}')
	default:
		dst = append(dst, `,"result":{}}`...)
	}
	return dst
}

// Size estimates the length of m's text, for allocating once.
func (m *Message) Size() int {
	n := 96 + len(m.ID) + len(m.Method) + len(m.Params) + len(m.Result)
	if m.Error != nil {
		n += len(m.Error.Message) + len(m.Error.Data)
	}
	return n
}

func (e *Error) append(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"code":`...), e.Code, 10)
	dst = append(append(dst, `,"message":`...), rawjson.Quote(e.Message)...)
	if e.Data != nil {
		dst = append(append(dst, `,"data":`...), e.Data...)
	}
	return append(dst, '}')
}
