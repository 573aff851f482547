package gateway

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// post reads one message of a client, or a batch, and hands it to the era that
// it belongs to.
func (g *Gateway) post(w http.ResponseWriter, r *http.Request, name string, endpoint relay.Endpoint) {
	if !isJSON(r.Header) {
		writeError(w, http.StatusUnsupportedMediaType, nil, jsonrpc.Errorf(codeServer, "Content-Type must be application/json"))
		return
	}
	a := accepts(r.Header)
	if !a.json && !a.stream {
		writeError(w, http.StatusNotAcceptable, nil, jsonrpc.Errorf(codeServer, "Accept must list application/json and text/event-stream"))
		return
	}
	body, status, e := g.readBody(w, r)
	if e != nil {
		writeError(w, status, nil, e)
		return
	}
	if jsonrpc.IsBatch(body) {
		g.legacyBatch(w, r, name, endpoint, body, a)
		return
	}
	m, err := jsonrpc.Parse(body)
	if err != nil {
		writeError(w, http.StatusBadRequest, m.ID, parseError(err))
		return
	}
	if isModern(r.Header, &m) {
		g.modern(w, r, name, endpoint, &m, a)
		return
	}
	g.legacy(w, r, name, endpoint, &m, a)
}

func parseError(err error) *jsonrpc.Error {
	if errors.Is(err, jsonrpc.ErrInvalid) {
		return jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "%v", err)
	}
	return jsonrpc.Errorf(jsonrpc.CodeParseError, "%v", err)
}

func tooLarge(limit int64) *jsonrpc.Error {
	return jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "the message is larger than the limit of %d bytes", limit)
}

// readBody reads the body, which nothing else may share: the payloads of the
// message alias it for as long as anybody needs them.
func (g *Gateway) readBody(w http.ResponseWriter, r *http.Request) ([]byte, int, *jsonrpc.Error) {
	limit := g.cfg.MaxRequestBytes
	if r.ContentLength > limit {
		return nil, http.StatusRequestEntityTooLarge, tooLarge(limit)
	}
	// A client that stalls in the middle of a body must not hold the
	// connection for ever. Cleared afterwards, for the reader that watches
	// the connection while the request is served. Not every ResponseWriter
	// has deadlines.
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(stall(int(max(r.ContentLength, 0)))))
	defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	var body []byte
	var err error
	// A length is a promise: only small ones are believed before they are kept.
	if n := r.ContentLength; n > 0 && n <= 1<<20 {
		body = make([]byte, n)
		_, err = io.ReadFull(r.Body, body)
	} else {
		var buf bytes.Buffer
		_, err = buf.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
		body = buf.Bytes()
	}
	switch {
	case err != nil:
		if _, over := errors.AsType[*http.MaxBytesError](err); over {
			return nil, http.StatusRequestEntityTooLarge, tooLarge(limit)
		}
		return nil, http.StatusBadRequest, jsonrpc.Errorf(jsonrpc.CodeParseError, "reading the body: %v", err)
	case len(body) == 0:
		return nil, http.StatusBadRequest, jsonrpc.Errorf(jsonrpc.CodeParseError, "the body is empty")
	}
	return body, 0, nil
}

// legacyVersion checks the version header of a request of the older era. A
// missing one is fine: it came with 2025-06-18.
func legacyVersion(h http.Header) *jsonrpc.Error {
	v := h.Get(headerVersion)
	if v == "" || slices.Contains(legacyVersions, v) {
		return nil
	}
	return unsupportedVersion(v)
}
