package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// This file is the MCP client that the commands tools and call are.

// A hostSession is an MCP session with a running host. What the host answers
// is kept as it came, since the SDK's types would lose unknown fields and
// round large integers.
type hostSession struct {
	*mcp.ClientSession
	raw *rawAnswers
}

// list calls one of the list methods until its last page and returns the
// entries under key, each as the host sent it.
func (s *hostSession) list(ctx context.Context, key string, page func(ctx context.Context, cursor string) (next string, err error)) ([]json.RawMessage, error) {
	all := []json.RawMessage{}
	cursor := ""
	for {
		next, err := page(ctx, cursor)
		if err != nil {
			return nil, err
		}
		var result map[string]json.RawMessage
		var entries []json.RawMessage
		if err := json.Unmarshal(s.raw.result(), &result); err != nil {
			return nil, fmt.Errorf("reading the list: %w", err)
		}
		if err := json.Unmarshal(result[key], &entries); err != nil {
			return nil, fmt.Errorf("reading the list: %w", err)
		}
		all = append(all, entries...)
		if next == "" || next == cursor {
			return all, nil
		}
		cursor = next
	}
}

// tools lists the tools of the endpoint.
func (s *hostSession) tools(ctx context.Context) ([]json.RawMessage, error) {
	return s.list(ctx, "tools", func(ctx context.Context, cursor string) (string, error) {
		res, err := s.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		if err != nil {
			return "", fmt.Errorf("listing tools: %w", err)
		}
		return res.NextCursor, nil
	})
}

// rawAnswers is a round tripper that adds the token and keeps the answer to
// the last request. The commands make one request at a time.
type rawAnswers struct {
	token string
	base  http.RoundTripper

	mu      sync.Mutex
	kind    string // media type of body
	body    *bytes.Buffer
	refused refusal // zero: the last request was not refused
}

// A refusal is an answer that is no success in terms of HTTP.
type refusal struct {
	status  int
	message string // of the JSON-RPC error in it, if there is one
}

// maxRefusal bounds what is read of a refusal.
const maxRefusal = 64 << 10

// RoundTrip sends the request.
func (r *rawAnswers) RoundTrip(req *http.Request) (*http.Response, error) {
	if r.token != "" {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	res, err := r.base.RoundTrip(req)
	r.mu.Lock()
	r.refused = refusal{}
	r.mu.Unlock()
	if err == nil && res.StatusCode >= 400 {
		r.refuse(res)
	}
	if err != nil || req.Method != http.MethodPost || res.StatusCode != http.StatusOK {
		return res, err
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	body := new(bytes.Buffer)
	r.mu.Lock()
	r.kind, r.body = kind, body
	r.mu.Unlock()
	res.Body = &tee{res.Body, body, &r.mu}
	return res, nil
}

// refuse keeps what a refusal says.
func (r *rawAnswers) refuse(res *http.Response) {
	text, err := io.ReadAll(io.LimitReader(res.Body, maxRefusal))
	if err == nil || len(text) > 0 {
		res.Body.Close()
		res.Body = io.NopCloser(bytes.NewReader(text))
	}
	var m struct{ Error struct{ Message string } }
	_ = json.Unmarshal(text, &m) // a proxy's page has no message
	r.mu.Lock()
	r.refused = refusal{res.StatusCode, m.Error.Message}
	r.mu.Unlock()
}

// refusal returns why the last request was refused.
func (r *rawAnswers) refusal() refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// result returns the result of the last answer, nil if it held none.
func (r *rawAnswers) result() json.RawMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.body == nil {
		return nil
	}
	if r.kind != "text/event-stream" {
		return resultOf(r.body.Bytes())
	}
	var last json.RawMessage
	for event := range bytes.SplitSeq(bytes.ReplaceAll(r.body.Bytes(), []byte("\r\n"), []byte("\n")), []byte("\n\n")) {
		var data []byte
		for line := range bytes.SplitSeq(event, []byte("\n")) {
			if text, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				data = append(data, bytes.TrimPrefix(text, []byte(" "))...)
			}
		}
		if result := resultOf(data); result != nil {
			last = result
		}
	}
	return last
}

func resultOf(message []byte) json.RawMessage {
	var m struct{ Result json.RawMessage }
	if json.Unmarshal(message, &m) != nil {
		return nil
	}
	return m.Result
}

// tee copies what is read into a buffer.
type tee struct {
	io.ReadCloser
	into *bytes.Buffer
	mu   *sync.Mutex
}

// Read reads and copies.
func (t *tee) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.mu.Lock()
	t.into.Write(p[:n])
	t.mu.Unlock()
	return n, err
}
