package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"
)

// maxLine bounds a line of an answer: a status of a thousand servers has a few
// megabytes.
const maxLine = 64 << 20

// A Client asks one running host. Its methods may be called concurrently; their
// errors are an *Error if the host refused, and say otherwise that the host
// could not be asked.
type Client struct {
	// Path is the host's socket.
	Path string
	http *http.Client
}

// NewClient returns a client of the host with that socket. It connects to
// nothing yet. [Find] returns one by configuration.
func NewClient(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	return &Client{Path: path, http: &http.Client{Transport: &http.Transport{
		DialContext: dial, DisableKeepAlives: true, DisableCompression: true,
	}}}
}

// Info asks which host this is.
func (c *Client) Info(ctx context.Context) (info Info, err error) {
	err = c.ask(ctx, http.MethodGet, "/v1/host", nil, &info)
	info.Socket = c.Path
	return info, err
}

// Status asks for the state of everything.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	err = c.ask(ctx, http.MethodGet, "/v1/status", nil, &s)
	s.Host.Socket = c.Path
	return s, err
}

// Watch calls show with the status now and whenever it has changed, until ctx
// ends, show returns an error, or the host ends, which is io.EOF.
func (c *Client) Watch(ctx context.Context, show func(Status) error) error {
	return follow(ctx, c, "/v1/status?watch=1", true, func(s Status) error {
		s.Host.Socket = c.Path
		return show(s)
	})
}

// A Query says which part of a feed is wanted.
type Query struct {
	Server string // of this server alone
	Last   *int   // at most so many of those that are there; nil: all
	Follow bool   // go on with what is to come
}

func (q Query) path(of string) string {
	v := url.Values{}
	if q.Server != "" {
		v.Set("server", q.Server)
	}
	if q.Last != nil {
		v.Set("last", strconv.Itoa(*q.Last))
	}
	if q.Follow {
		v.Set("follow", "1")
	}
	return of + "?" + v.Encode()
}

// Events calls show with each event. It ends as Watch does, or when all that
// are there have been shown, if no more are wanted.
func (c *Client) Events(ctx context.Context, q Query, show func(Event) error) error {
	return follow(ctx, c, q.path("/v1/events"), q.Follow, show)
}

// Logs calls show with each line of the log. It ends as Events does.
func (c *Client) Logs(ctx context.Context, q Query, show func(Line) error) error {
	return follow(ctx, c, q.path("/v1/logs"), q.Follow, show)
}

// Reconnect asks for new sessions of some servers, or of all that are enabled,
// and returns their names.
func (c *Client) Reconnect(ctx context.Context, servers ...string) ([]string, error) {
	var done reconnectRequest
	err := c.ask(ctx, http.MethodPost, "/v1/reconnect", reconnectRequest{servers}, &done)
	return done.Servers, err
}

// Park ends the session of a server until somebody reconnects it.
func (c *Client) Park(ctx context.Context, server string) error {
	return c.ask(ctx, http.MethodPost, "/v1/park", parkRequest{server}, &parkRequest{})
}

// Reload makes the host read its configuration again, and returns when what
// has changed is applied.
func (c *Client) Reload(ctx context.Context, dryRun bool) (changes Changes, err error) {
	return changes, c.ask(ctx, http.MethodPost, "/v1/reload", reloadRequest{DryRun: dryRun}, &changes)
}

// Preview asks what a reload would change if the configuration were what is in
// another file, whose path is absolute. Nothing is applied.
func (c *Client) Preview(ctx context.Context, path string) (changes Changes, err error) {
	return changes, c.ask(ctx, http.MethodPost, "/v1/reload", reloadRequest{DryRun: true, File: path}, &changes)
}

// send makes a request and returns the answer, if it is no refusal.
func (c *Client) send(ctx context.Context, method, path string, body io.Reader, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://host"+path, body)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	res, err := c.http.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // the URL says nothing
		}
		if number, ok := errors.AsType[syscall.Errno](err); ok {
			return nil, fmt.Errorf("no host answers at %s: %w", c.Path, number)
		}
		return nil, fmt.Errorf("asking the host at %s: %w", c.Path, err)
	}
	if res.StatusCode < 400 {
		return res, nil
	}
	defer res.Body.Close()
	refusal := &Error{}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxLine)).Decode(refusal); err != nil || refusal.Code == "" {
		return nil, fmt.Errorf("the host at %s answered %s to %s %s: it may be of another version", c.Path, res.Status, method, path)
	}
	return nil, refusal
}

func (c *Client) ask(ctx context.Context, method, path string, question, result any) error {
	var body io.Reader
	if question != nil {
		text, err := json.Marshal(question)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	res, err := c.send(ctx, method, path, body, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(io.LimitReader(res.Body, maxLine)).Decode(result); err != nil {
		return fmt.Errorf("reading the answer of the host at %s: %w", c.Path, err)
	}
	return nil
}

// follow calls show with each line of an answer. The end of an endless one is
// io.EOF.
func follow[T any](ctx context.Context, c *Client, path string, endless bool, show func(T) error) error {
	res, err := c.send(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var item T
		if err := json.Unmarshal(lines.Bytes(), &item); err != nil {
			return fmt.Errorf("reading the answer of the host at %s: %w", c.Path, err)
		}
		if err := show(item); err != nil {
			return err
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case endless:
		return io.EOF // also if the connection broke: the host has ended
	case lines.Err() != nil:
		return fmt.Errorf("reading the answer of the host at %s: %w", c.Path, lines.Err())
	}
	return nil
}

// joining bounds the handshake of Join.
const joining = 5 * time.Second
