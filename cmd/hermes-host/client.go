package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/hermes-host/hermes-host/host/config"
	"github.com/hermes-host/hermes-host/internal/version"
)

// endpoint says which running host the commands tools and call talk to.
type endpoint struct {
	url, config, token string
}

func (e *endpoint) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&e.url, "url", "", "endpoint of the running host, such as http://127.0.0.1:7717/mcp/<server> (default: /mcp at the address that the configuration listens on)")
	cmd.Flags().StringVar(&e.token, "token", "", "bearer token, where the host asks for one; $HERMES_TOKEN if left out")
	configFlag(cmd, &e.config)
}

// A hostSession is an MCP session with a running host. What the host answers
// is kept as it came, since the SDK's types would lose unknown fields and
// round large integers.
type hostSession struct {
	*mcp.ClientSession
	raw *rawAnswers
}

// connect opens a session. The error is an *exit with exitUnreachable where no
// host answers.
func (e *endpoint) connect(ctx context.Context, opts *mcp.ClientOptions) (*hostSession, error) {
	target, token, err := e.resolve()
	if err != nil {
		return nil, err
	}
	raw := &rawAnswers{token: token, base: http.DefaultTransport}
	client := mcp.NewClient(&mcp.Implementation{Name: "hermes-host-cli", Version: version.String()}, opts)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint:             target,
		HTTPClient:           &http.Client{Transport: raw},
		MaxRetries:           -1,
		MaxEventSize:         -1,
		DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		if _, ok := errors.AsType[*net.OpError](err); ok {
			return nil, &exit{exitUnreachable, fmt.Errorf("no host answers at %s; start one with \"hermes-host run\", or name its endpoint with --url: %w", target, err)}
		}
		return nil, fmt.Errorf("connecting to %s: %w", target, err)
	}
	return &hostSession{session, raw}, nil
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

	mu   sync.Mutex
	kind string // media type of body
	body *bytes.Buffer
}

// RoundTrip sends the request.
func (r *rawAnswers) RoundTrip(req *http.Request) (*http.Response, error) {
	if r.token != "" {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	res, err := r.base.RoundTrip(req)
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

// clientURL returns the endpoint of a host that listens on address. A host
// that listens everywhere is reached over loopback.
func clientURL(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "http://" + address + "/mcp"
	}
	switch strings.Trim(host, "[]") {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	return (&url.URL{Scheme: "http", Host: net.JoinHostPort(host, port), Path: "/mcp"}).String()
}

// resolve returns the URL and the bearer token to use. Without --url they are
// those of the configuration, or where a host listens by default if there is
// none.
func (e *endpoint) resolve() (target, token string, err error) {
	token = cmp.Or(e.token, os.Getenv("HERMES_TOKEN"))
	if e.url != "" {
		return e.url, token, nil
	}
	listen := config.Listen{Address: "127.0.0.1:7717"}
	path, missing := findConfig(e.config, true)
	if missing != nil && e.config != "" {
		return "", "", missing
	}
	if missing == nil {
		// Servers do not matter here, so a file is read with what it has.
		file, diags := config.Load(path, config.Options{Version: version.String()})
		if file == nil {
			return "", "", fmt.Errorf("no --url is given, and the configuration does not tell where the host listens: %w", diags.Err())
		}
		listen = file.Listen()
	}
	return clientURL(listen.Address), cmp.Or(token, listen.Token), nil
}
