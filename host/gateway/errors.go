package gateway

import (
	"net/http"
	"sync"

	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// Error codes of MCP 2026-07-28 (SEP-2243, SEP-2575) and the two that MCP
// implementations agree on for sessions over HTTP.
const (
	codeHeaderMismatch     = -32020
	codeMissingCapability  = -32021
	codeUnsupportedVersion = -32022
	codeServer             = -32000
	codeSessionNotFound    = -32001
	codeCancelled          = -32800 // as in the Language Server Protocol; JSON-RPC and MCP name none
)

var (
	errPanic     = jsonrpc.Errorf(jsonrpc.CodeInternalError, "internal error; the host's log has the details")
	errCancelled = jsonrpc.Errorf(codeCancelled, "the request was cancelled")
)

// Header values that every response shares. They are never changed.
var (
	typeJSON   = []string{"application/json"}
	typeStream = []string{"text/event-stream"}
	noCache    = []string{"no-cache, no-transform"}
	noBuffer   = []string{"no"}
	nosniff    = []string{"nosniff"}
)

// buffers holds scratch space for responses. Large ones are not kept.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

const maxPooled = 64 << 10

func putBuffer(b *[]byte) {
	if cap(*b) <= maxPooled {
		buffers.Put(b)
	}
}

// writeError answers with a JSON-RPC error as the whole body. Id is nil when
// the request could not be read so far.
func writeError(w http.ResponseWriter, status int, id []byte, e *jsonrpc.Error) {
	m := jsonrpc.Message{ID: id, Error: e}
	b := buffers.Get().(*[]byte)
	defer putBuffer(b)
	*b = m.Append((*b)[:0])
	h := w.Header()
	h["Content-Type"] = typeJSON
	h["X-Content-Type-Options"] = nosniff
	w.WriteHeader(status)
	_, _ = w.Write(*b) // a client that is gone needs no answer
}

func methodNotAllowed(w http.ResponseWriter, allow string) {
	w.Header().Set("Allow", allow) // RFC 9110, section 15.5.6
	writeError(w, http.StatusMethodNotAllowed, nil, jsonrpc.Errorf(codeServer, "method not allowed; use %s", allow))
}

// modernStatus is the HTTP status of an error answer to a stateless request
// (SEP-2575): 200 unless the specification names another.
func modernStatus(e *jsonrpc.Error) int {
	if e == nil {
		return http.StatusOK
	}
	switch e.Code {
	case jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	case jsonrpc.CodeInvalidParams, jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest,
		codeHeaderMismatch, codeMissingCapability, codeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}
