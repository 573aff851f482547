package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/hermes-host/hermes-host/internal/httpconn"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// Resuming the stream of an answer (MCP 2025-11-25, "Streamable HTTP",
// Resumability and Redelivery).
const (
	// A server that can't be reached, or gives no new event, is asked this
	// often in a row.
	resumeAttempts = 3

	resumeDelay    = time.Second // unless the server says otherwise
	maxResumeDelay = 5 * time.Minute
)

// stream reads the events of an answer and hands on each as soon as it is
// complete. A stream that ends without the answer is resumed if the server has
// numbered its events; otherwise the request fails at once.
func (p *post) stream(ctx context.Context, resp *http.Response) {
	last, retry := "", time.Duration(0)
	for attempts := 0; ; {
		id, wait, err := p.events(ctx, resp.Body)
		if p.settled || ctx.Err() != nil {
			return
		}
		if id != "" && id != last {
			last, attempts = id, 0
		}
		if wait > 0 {
			retry = wait
		}
		if last == "" || !p.conn.resumes() {
			p.broken(ctx, "the stream ended before it"+because(err))
			return
		}
		if resp = p.resume(ctx, last, retry, &attempts); resp == nil {
			return // settled, or not wanted any more
		}
		defer resp.Body.Close()
	}
}

// resumes reports whether the session's version has resumable streams.
func (c *conn) resumes() bool {
	v := c.version.Load()
	return v != nil && *v < stateless
}

// events reads a stream to its end. It returns the last event's id and the
// delay that the server wants before a new connection.
func (p *post) events(ctx context.Context, body io.ReadCloser) (lastID string, retry time.Duration, err error) {
	c := p.conn
	events := httpconn.NewEvents(body, c.limit)
	defer events.Release()
	var limit *time.Timer // set once the answer is there
	for {
		e, err := events.Next()
		if err != nil {
			if limit != nil {
				limit.Stop()
			}
			if err == io.EOF {
				c.client.Done()
				err = nil
			}
			return events.LastID(), events.Retry(), err
		}
		switch {
		case e.Oversize != nil && !e.Oversize.Asks():
			p.oversize(ctx)
		case e.Oversize != nil:
			c.log.Warn("dropped a message of the server that is over the limit", "limit", c.limit)
		case len(e.Data) > 0 && e.Name == "message":
			p.take(ctx, e.Data)
		}
		if p.settled && limit == nil {
			limit = time.AfterFunc(afterAnswer, func() { body.Close() })
		}
	}
}

// resume continues a stream after the event with the given id. Nil says that
// the request has been settled, or that ctx has ended.
func (p *post) resume(ctx context.Context, last string, retry time.Duration, attempts *int) *http.Response {
	c := p.conn
	var trouble string
	for *attempts < resumeAttempts {
		delay := retry
		if delay == 0 {
			delay = resumeDelay
		}
		if !sleep(ctx, min(delay<<*attempts, maxResumeDelay)) {
			return nil
		}
		*attempts++
		header := c.sessionHeader(http.Header{"Accept": acceptStream, headerLastEvent: {last}})
		resp, err := c.client.Do(ctx, http.MethodGet, nil, header, nil)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			trouble = err.Error()
			continue
		}
		if resp.StatusCode == http.StatusOK && httpconn.MediaType(resp) == "text/event-stream" {
			return resp
		}
		resp.Body.Close()
		switch {
		case p.unknownSession(resp):
			p.sessionLost(ctx, deliveredUnknown)
			return nil
		case resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests:
			p.broken(ctx, fmt.Sprintf("the stream ended before it, and can't be resumed: status %d", resp.StatusCode))
			return nil
		}
		trouble = c.client.StatusMessage(resp, nil)
	}
	if trouble == "" {
		trouble = "it ends without anything new each time"
	}
	p.fail(ctx, failure{
		reason:  transportpb.TransportError_REASON_CONNECTION,
		message: "the stream of the answer ended and could not be resumed: " + trouble,
	})
	return nil
}

// because gives an error as a subordinate clause.
func because(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, io.ErrUnexpectedEOF):
		return ": the server closed the connection"
	}
	return ": " + err.Error()
}

// sleep returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
