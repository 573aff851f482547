package main

import (
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/hermes-host/hermes-host/internal/httpconn"
	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// The server-to-client stream: a GET that stays open, for what the server says
// on its own (MCP 2025-11-25, "Streamable HTTP", Listening for Messages from the
// Server). Versions from 2026-07-28 on have none.
//
// The stream is a convenience of the session, not its life. A server may offer
// none, which is no fault. One that breaks is opened again, for as long as the
// session lasts. What was said meanwhile is lost, so once the stream
// is back the lists count as changed, unless the server could resume it.
const (
	reopenBase = 500 * time.Millisecond // doubled with each failure
	reopenMax  = time.Minute

	// A stream that lived this long, or said something, has worked.
	streamProven = 10 * time.Second

	// So many refused connections in a row, with no call under way, mean
	// that the server is gone.
	goneAfter = 3
)

type listener struct {
	conn *conn

	opened   bool          // there has been a stream
	gap      bool          // what was said since the stream broke may be lost
	lastID   string        // of the last event
	retry    time.Duration // the server's own wish
	failures int           // since a stream has worked
	refused  int           // connections in a row that did not come up
}

// startListening opens the stream in a goroutine of its own.
func (c *conn) startListening() {
	if !c.resumes() {
		return
	}
	c.inbox.Background(func() {
		l := &listener{conn: c}
		for l.once() && sleep(c.ctx, l.delay()) {
		}
	})
}

// delay says how long to wait before the next attempt.
func (l *listener) delay() time.Duration {
	if l.failures == 0 && l.retry > 0 {
		return min(max(l.retry, reopenBase/5), reopenMax)
	}
	d := min(reopenBase<<min(max(l.failures-1, 0), 10), reopenMax)
	return d/2 + rand.N(d/2) // so that many sessions don't come back at once
}

// once opens the stream and reads it to its end. It returns whether to do so
// again.
func (l *listener) once() bool {
	c := l.conn
	header := c.sessionHeader(http.Header{"Accept": acceptStream})
	if l.lastID != "" {
		header[headerLastEvent] = []string{l.lastID}
	}
	resp, err := c.client.Do(c.ctx, http.MethodGet, nil, header, nil)
	if err != nil {
		return l.unreachable(err)
	}
	defer resp.Body.Close()
	l.refused = 0
	c.inbox.Reached()
	if resp.StatusCode == http.StatusOK && httpconn.MediaType(resp) == "text/event-stream" {
		l.read(resp.Body)
		return c.ctx.Err() == nil
	}
	return l.refusal(resp)
}

// read reads an open stream.
func (l *listener) read(body io.Reader) {
	c := l.conn
	c.stream.Store(true)
	defer c.stream.Store(false)
	if l.gap {
		l.gap = false
		l.refresh()
	}
	l.opened = true
	began := time.Now()
	events := httpconn.NewEvents(body, c.limit)
	defer events.Release()
	spoke := false
	for {
		e, err := events.Next()
		if err != nil {
			if id := events.LastID(); id != "" {
				l.lastID = id
			}
			if r := events.Retry(); r > 0 {
				l.retry = r
			}
			if spoke || time.Since(began) >= streamProven {
				l.failures = 0
			} else {
				l.failures++
			}
			// A server that ends a numbered stream in order means to be
			// asked for its continuation (SEP-1699).
			if l.gap = err != io.EOF || l.lastID == ""; !l.gap {
				l.failures = 0
			}
			c.log.Debug("the server-to-client stream ended", "error", err)
			return
		}
		spoke = true
		switch {
		case e.Oversize != nil:
			c.log.Warn("dropped a message of the server that is over the limit", "limit", c.limit)
		case len(e.Data) > 0 && e.Name == "message":
			l.take(e.Data)
		}
	}
}

// take hands on what the server says. Answers don't belong here.
func (l *listener) take(text []byte) {
	all := []([]byte){text}
	if jsonrpc.IsBatch(text) {
		elements, err := rawjson.Elements(jsonrpc.TrimMark(text))
		if err != nil {
			l.conn.log.Warn("the server sent what is no message", "error", err)
			return
		}
		all = all[:0]
		for _, e := range elements {
			all = append(all, e)
		}
	}
	for _, one := range all {
		m, err := jsonrpc.Parse(one)
		switch {
		case err != nil:
			l.conn.log.Warn("the server sent what is no message", "error", err)
		case m.IsResponse():
			l.conn.log.Warn("the server sent an answer on the stream that has none", "id", string(m.ID))
		default:
			l.conn.inbox.Push(l.conn.ctx, shared.Incoming{Message: m})
		}
	}
}

// refresh says in the server's place that its lists have changed, for the
// lists whose changes it has promised to tell.
func (l *listener) refresh() {
	changes := l.conn.changes.Load()
	if changes == nil {
		return
	}
	for _, method := range *changes {
		l.conn.inbox.Push(l.conn.ctx, shared.Incoming{Message: jsonrpc.Message{Method: method}})
	}
}

// unreachable handles a GET without an answer.
func (l *listener) unreachable(err error) bool {
	c := l.conn
	fault, ok := err.(*httpconn.Fault)
	if !ok {
		return false // the session is over
	}
	l.failures++
	l.gap = l.gap || l.opened
	if !fault.NoConn {
		l.refused = 0
		return true
	}
	if l.refused++; l.refused >= goneAfter && c.inbox.Idle() {
		c.inbox.End(fault.EndError())
		return false
	}
	return true
}

// refusal handles an answer that is no stream.
func (l *listener) refusal(resp *http.Response) bool {
	c := l.conn
	c.drain(resp)
	status := resp.StatusCode
	l.failures++
	l.gap = l.gap || l.opened
	switch {
	case status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented:
		return false // the server offers none
	case status == http.StatusBadRequest && l.lastID != "":
		l.lastID = "" // it can't resume
		l.gap = true
		return true
	case (status == http.StatusBadRequest || status == http.StatusNotFound) && c.session.Load() != nil && c.gone():
		c.inbox.End(c.lostEnd())
		return false
	case status >= 500, status == http.StatusConflict, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout:
		return true
	}
	if !l.opened {
		// Some servers say so with another status, or with a page.
		c.log.Debug("the server offers no stream of its own", "status", status)
		return false
	}
	return true
}
