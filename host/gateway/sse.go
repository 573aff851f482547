package gateway

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// retryMillis is how long a client should wait before it resumes a broken
// stream (SEP-1699).
const retryMillis = 500

// patience bounds one read or write of a client, so that one that has stopped
// does not hold a goroutine for ever.
const patience = time.Minute

// stall is the longest that reading or writing n bytes may take: patience, and
// for many of them as long as a slow line needs.
func stall(n int) time.Duration {
	return patience + time.Duration(n>>15)*time.Second // 32 KiB/s
}

// appendEvent appends m as a server-sent event (HTML standard, 9.2) with the
// id {key}_{n}, or without one if key is "".
func appendEvent(dst []byte, key string, n int, m *jsonrpc.Message) []byte {
	dst = append(dst, "event: message\n"...)
	dst = appendID(dst, key, n)
	dst = append(dst, "data: "...)
	start := len(dst)
	dst = m.Append(dst)
	oneLine(dst[start:])
	return append(dst, "\n\n"...)
}

// appendPriming appends the event without data that gives a client something
// to resume from before anything has been said (MCP 2025-11-25, transports).
func appendPriming(dst []byte, key string, n int) []byte {
	dst = appendID(dst, key, n)
	dst = append(dst, "retry: "...)
	dst = strconv.AppendInt(dst, retryMillis, 10)
	return append(dst, "\ndata: \n\n"...)
}

func appendID(dst []byte, key string, n int) []byte {
	if key == "" {
		return dst
	}
	dst = append(append(append(dst, "id: "...), key...), '_')
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, '\n')
}

// parseEventID is the inverse of appendID.
func parseEventID(id string) (key string, n int, ok bool) {
	i := bytes.LastIndexByte([]byte(id), '_')
	if i <= 0 {
		return "", 0, false
	}
	n, err := strconv.Atoi(id[i+1:])
	return id[:i], n, err == nil && n >= 0
}

// oneLine turns line ends into spaces in place. In valid JSON they only occur
// between tokens, where a space means the same.
func oneLine(text []byte) {
	for _, end := range [...]byte{'\n', '\r'} {
		for i := bytes.IndexByte(text, end); i >= 0; {
			text[i] = ' '
			next := bytes.IndexByte(text[i:], end)
			if next < 0 {
				break
			}
			i += next
		}
	}
}

// An eventWriter writes events to one HTTP response.
type eventWriter struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	started bool
}

func newEventWriter(w http.ResponseWriter) *eventWriter {
	return &eventWriter{w: w, rc: http.NewResponseController(w)}
}

// write sends b, after the header if that has not been sent, and returns when
// the bytes are on their way.
func (e *eventWriter) write(b []byte) error {
	if !e.started {
		e.started = true
		h := e.w.Header()
		h["Content-Type"] = typeStream
		h["Cache-Control"] = noCache
		h["X-Accel-Buffering"] = noBuffer // nginx would hold events back
		h["X-Content-Type-Options"] = nosniff
		e.w.WriteHeader(http.StatusOK)
	}
	_ = e.rc.SetWriteDeadline(time.Now().Add(stall(len(b)))) // not every ResponseWriter can
	if _, err := e.w.Write(b); err != nil {
		return err
	}
	return e.rc.Flush()
}
