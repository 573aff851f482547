package sseconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/hermes-host/hermes-host/internal/httpconn"
	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// endpointTime is how long a server may take from the request to the first
// event, which names the endpoint.
const endpointTime = 30 * time.Second

var errNoEndpoint = errors.New("no endpoint came in time")

// advice is for URLs where there is a server, but no event stream.
const advice = `; a server of streamable HTTP needs transport "http"`

// A NoStream says that there is a server at the URL, but no event stream that
// begins with an endpoint. Whatever a server answers to a GET may mean that: some
// of streamable HTTP only answer 405, as they should, others 403, 410 or 500. A
// demand for authorization and a proxy's word that the server is away are none.
type NoStream struct{ End *shared.EndError }

// Error returns the message.
func (e *NoStream) Error() string { return e.End.Message }

// Unwrap returns what that means for a session that wants one.
func (e *NoStream) Unwrap() error { return e.End }

// connect opens the stream and reads the endpoint from it.
func (c *Conn) connect(limit time.Duration) (io.ReadCloser, *httpconn.Events, error) {
	ctx, giveUp := context.WithCancelCause(c.ctx)
	patience := time.AfterFunc(limit, func() { giveUp(errNoEndpoint) })
	body, events, err := c.first(ctx)
	if !patience.Stop() && err == nil || context.Cause(ctx) == errNoEndpoint {
		if err == nil {
			events.Release()
			body.Close()
		}
		giveUp(nil)
		return nil, nil, &NoStream{transportEnd(fmt.Sprintf("%s sent no endpoint within %v", c.client.Place(), limit))}
	}
	if err != nil {
		giveUp(nil)
		return nil, nil, err
	}
	return &stream{ReadCloser: body, end: func() { giveUp(nil) }}, events, nil
}

// stream is the body of the GET with what its context needs at the end.
type stream struct {
	io.ReadCloser
	end func()
}

// Close ends the request.
func (s *stream) Close() error {
	s.end()
	return s.ReadCloser.Close()
}

// first makes the request and reads the first event.
func (c *Conn) first(ctx context.Context) (io.ReadCloser, *httpconn.Events, error) {
	resp, err := c.client.Do(ctx, http.MethodGet, nil, http.Header{"Accept": {"text/event-stream"}}, nil)
	if err != nil {
		if fault, ok := errors.AsType[*httpconn.Fault](err); ok {
			return nil, nil, fault.EndError()
		}
		return nil, nil, err
	}
	if err := c.checkStream(resp); err != nil {
		resp.Body.Close()
		return nil, nil, err
	}
	events := httpconn.NewEvents(resp.Body, c.limit)
	if err := c.readEndpoint(resp, events); err != nil {
		events.Release()
		resp.Body.Close()
		return nil, nil, err
	}
	return resp.Body, events, nil
}

// checkStream returns what is wrong with the answer to the GET.
func (c *Conn) checkStream(resp *http.Response) error {
	place := c.client.Place()
	protocol := func(message string) error {
		return &NoStream{&shared.EndError{
			Class: transportpb.SessionEnd_CLASS_PROTOCOL, Message: message,
			Path: shared.Path(shared.Attr("url")),
		}}
	}
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized:
		return &shared.EndError{Class: transportpb.SessionEnd_CLASS_AUTH, Message: c.client.AuthMessage(resp)}
	case status == http.StatusForbidden: // to whom, or to a GET
		return &NoStream{&shared.EndError{Class: transportpb.SessionEnd_CLASS_AUTH, Message: c.client.AuthMessage(resp)}}
	case status >= 300 && status < 400:
		return &NoStream{shared.ConfigError(place+" "+httpconn.RedirectMessage(resp), shared.Attr("url"))}
	case status == http.StatusMethodNotAllowed:
		// A server of this transport has to take a GET.
		return &NoStream{shared.ConfigError(fmt.Sprintf("%s answered 405 to a GET: it has no event stream%s", place, advice), shared.Attr("url"))}
	case status >= 300:
		body, _ := httpconn.ReadBody(resp, 64<<10)
		message := c.client.StatusMessage(resp, body)
		switch status {
		case http.StatusNotFound, http.StatusBadRequest, http.StatusNotAcceptable:
			return &NoStream{transportEnd(message + advice)}
		case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return transportEnd(message) // the server itself has said nothing
		}
		return &NoStream{transportEnd(message)} // 501, or 500 from a server that has no GET in mind
	}
	switch media := httpconn.MediaType(resp); media {
	case "text/event-stream":
		return nil
	case "text/html", "application/xhtml+xml":
		return protocol(place + " answered with a web page; is the URL that of an event stream?")
	default:
		return protocol(fmt.Sprintf("%s answered with %q and not with an event stream%s", place, media, advice))
	}
}

// readEndpoint reads the event that says where to send messages. Everything
// goes there, credentials included, so it must be of the stream's own origin.
func (c *Conn) readEndpoint(resp *http.Response, events *httpconn.Events) error {
	place := c.client.Place()
	for {
		e, err := events.Next()
		switch {
		case err != nil:
			return &NoStream{transportEnd(place + " ended the event stream before it named an endpoint")}
		case e.Name == "endpoint":
			endpoint, err := resp.Request.URL.Parse(string(e.Data))
			if err != nil || !httpconn.SameOrigin(endpoint, resp.Request.URL) {
				return &shared.EndError{
					Class:   transportpb.SessionEnd_CLASS_PROTOCOL,
					Message: place + " names an endpoint that is not of its own origin; behind a proxy the server may have to be told its public URL",
				}
			}
			c.endpoint = endpoint
			return nil
		case len(e.Data) > 0 || e.Oversize != nil:
			return &NoStream{&shared.EndError{
				Class:   transportpb.SessionEnd_CLASS_PROTOCOL,
				Message: place + " has an event stream that does not begin with an endpoint" + advice,
			}}
		}
	}
}
