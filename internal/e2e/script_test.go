package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A scripted server is a process that asks its director, which is in the test,
// what to do with each message, and so tells it of each one. It is the same
// over every transport, and its script goes on when it is killed.

// With this variable set to the director's URL, the test program is a scripted
// server over the transport that scriptKind names.
const (
	scriptEnv  = "HERMES_TEST_SCRIPT"
	scriptKind = "HERMES_TEST_SCRIPT_KIND"
)

// A mood is how a scripted server behaves.
type mood int

const (
	well    mood = iota // answers everything
	silent              // connected, answers ping and lists, but no call
	down                // no session comes about: the process dies, or 503; old ones are refused as ever
	hanging             // no session comes about: nothing is answered
	held                // all that comes waits for another mood
	deaf                // answers everything but ping, and server/discover after it
	unauth              // 401 to every HTTP request
)

// A director tells one scripted server how to behave and counts what it gets.
type director struct {
	url string

	mu       sync.Mutex
	mood     mood
	pid      int // of the process that came last
	begun    int // attempts to begin a session, as far as the server sees them
	calls    int // tools/call that reached a server, answered or not
	inits    int // sessions initialised
	pings    int // and what stands for one from 2026-07-28 on, server/discover
	silenced int // messages that got no answer
	dropped  int // of those, calls that the server was told to cancel
	wire     int // processes started, or HTTP requests
	changed  chan struct{}
}

func newDirector(t *testing.T) *director {
	d := &director{changed: make(chan struct{})}
	s := httptest.NewServer(d)
	t.Cleanup(s.Close)
	d.url = s.URL
	return d
}

// What a scripted server asks: at its start, for each HTTP request, and for
// each MCP request.
const (
	askStart   = "start"
	askHTTP    = "http"
	askMessage = "message"
	askDropped = "dropped" // tells that a call was cancelled
)

// ServeHTTP answers a scripted server's question with a word: "on", "die",
// "hang", or an HTTP status.
func (d *director) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	pid, _ := strconv.Atoi(q.Get("pid"))
	stdio := q.Get("kind") == "stdio"
	method := q.Get("method")
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pid = pid
	answer := "on"
	switch q.Get("ask") {
	case askStart:
		if stdio {
			d.wire++
			d.begun++
			answer = map[mood]string{down: "die", hanging: "hang"}[d.mood]
		}
	case askHTTP:
		d.wire++
		if method == "initialize" || method == "server/discover" || method == "" && q.Get("kind") == "sse" {
			d.begun++
		}
		if method == "tools/call" {
			d.calls++
		}
		answer = map[mood]string{down: "503", hanging: "hang", unauth: "401"}[d.mood]
		if d.mood == down && q.Has("session") {
			answer = "on" // and the server says that it knows no such session
		}
	case askMessage:
		if stdio && method == "tools/call" {
			d.calls++
		}
		if method == "initialize" {
			d.inits++
		}
		if isPing(method) {
			d.pings++
		}
		d.tell()
		for d.mood == held && r.Context().Err() == nil {
			changed := d.changed
			d.mu.Unlock()
			select {
			case <-changed:
			case <-r.Context().Done():
			}
			d.mu.Lock()
		}
		if d.mood == silent && method == "tools/call" || d.mood == deaf && isPing(method) {
			answer = "hang"
			d.silenced++
		}
	case askDropped:
		d.dropped++
	}
	d.tell()
	fmt.Fprint(w, answer)
}

func isPing(method string) bool { return method == "ping" || method == "server/discover" }

// tell wakes up those who wait for something to change. d.mu is held.
func (d *director) tell() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// set changes the mood.
func (d *director) set(m mood) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mood = m
	d.tell()
}

// sessions returns how many sessions were initialised so far.
func (d *director) sessions() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inits
}

// counts returns what has reached the server so far.
func (d *director) counts() (begun, calls, wire int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.begun, d.calls, d.wire
}

func (d *director) callCount() int {
	_, calls, _ := d.counts()
	return calls
}

func (d *director) unanswered() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.silenced
}

// await waits until what the director has seen satisfies a condition, which
// must not use the director's methods.
func (d *director) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	late := time.After(patience)
	for {
		d.mu.Lock()
		done, changed := ok(), d.changed
		d.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("the scripted server has not seen %s", what)
		}
	}
}

// serveScript is the scripted server. It reports false if this is not to be
// one.
func serveScript() bool {
	director, kind := os.Getenv(scriptEnv), os.Getenv(scriptKind)
	if director == "" {
		return false
	}
	s := script{director, kind}
	switch s.ask(context.Background(), askStart, "", "") {
	case "die":
		fmt.Fprintln(os.Stderr, "the script says that this process dies")
		os.Exit(1)
	case "hang":
		_, _ = io.Copy(io.Discard, os.Stdin)
		return true
	}
	server := s.server()
	if kind == "stdio" {
		_ = server.Run(context.Background(), &mcp.StdioTransport{}) // ends with its input
		return true
	}
	get := func(*http.Request) *mcp.Server { return server }
	var handler http.Handler = mcp.NewStreamableHTTPHandler(get, nil)
	switch kind {
	case "sse":
		handler = mcp.NewSSEHandler(get, nil)
	case "stateless":
		handler = mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true})
	}
	listener, err := net.Listen("tcp", os.Getenv(upstreamAddress))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("http://%s/\n", listener.Addr())
	fmt.Fprintln(os.Stderr, http.Serve(listener, s.guard(handler)))
	os.Exit(1)
	return true
}

type script struct{ director, kind string }

// ask asks the director. Without one there is nothing to live for.
func (s script) ask(ctx context.Context, what, method, session string) string {
	q := url.Values{"ask": {what}, "kind": {s.kind}, "method": {method}, "pid": {strconv.Itoa(os.Getpid())}}
	if session != "" {
		q.Set("session", session)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.director+"?"+q.Encode(), nil)
	if err != nil {
		panic(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if ctx.Err() != nil {
		return "hang" // whoever sent the message has gone
	}
	if err != nil {
		os.Exit(1)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		os.Exit(1)
	}
	return string(answer)
}

// server offers a tool that may be repeated, one that may not, and one whose
// answer is an error.
func (s script) server() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "script", Version: "1"}, nil)
	pid := func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strconv.Itoa(os.Getpid())}}}, nil
	}
	object := json.RawMessage(`{"type":"object"}`)
	server.AddTool(&mcp.Tool{Name: "read", InputSchema: object, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, pid)
	server.AddTool(&mcp.Tool{Name: "write", InputSchema: object}, pid)
	server.AddTool(&mcp.Tool{Name: "fail", InputSchema: object}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "no such ticket"}}}, nil
	})
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if !strings.HasPrefix(method, "notifications/") && s.ask(ctx, askMessage, method, "") == "hang" {
				<-ctx.Done()
				if method == "tools/call" {
					s.ask(context.Background(), askDropped, method, "")
				}
				return nil, ctx.Err()
			}
			return next(ctx, method, req)
		}
	})
	return server
}

// guard asks the director about each HTTP request before next gets it.
func (s script) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var m struct{ Method string }
		_ = json.Unmarshal(body, &m) // a GET has none
		switch answer := s.ask(r.Context(), askHTTP, m.Method, r.Header.Get("Mcp-Session-Id")); answer {
		case "503", "401":
			code, _ := strconv.Atoi(answer)
			http.Error(w, "the script says so", code)
		case "hang":
			<-r.Context().Done()
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// A scripted is a scripted server from the test's side.
type scripted struct {
	*director
	t    *testing.T
	kind string
	web  *upstream // the process, if it is not the host that starts it
}

// startScripted prepares a scripted server over a transport of the house, or
// "stateless": over http, for 2026-07-28.
func startScripted(t *testing.T, kind string) *scripted {
	s := &scripted{director: newDirector(t), t: t, kind: kind}
	if kind != "stdio" {
		s.web = &upstream{t: t, kind: kind, env: s.env()}
		s.web.start("127.0.0.1:0")
		t.Cleanup(s.web.kill)
	}
	return s
}

func (s *scripted) env() []string {
	return []string{scriptEnv + "=" + s.url, scriptKind + "=" + s.kind}
}

// kill ends the session as a crash does. Over http and sse another process
// listens at the address at once, which knows no session.
func (s *scripted) kill() {
	s.t.Helper()
	if s.web != nil {
		s.web.restart()
		return
	}
	s.mu.Lock()
	pid := s.pid
	s.mu.Unlock()
	p, err := os.FindProcess(pid)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		s.t.Fatal(err)
	}
}

// block is a server block with the settings given.
func (s *scripted) block(name, settings string) string {
	transport := fmt.Sprintf("url = %q", s.webURL())
	if s.web == nil {
		transport = fmt.Sprintf("command = %q\n    env = { %s = %q, %s = %q }", self(s.t), scriptEnv, s.url, scriptKind, s.kind)
	}
	kind := s.kind
	if kind == "stateless" {
		kind = "http"
	}
	return fmt.Sprintf("server %q {\n%s\n  transport %q {\n    %s\n  }\n}\n", name, settings, kind, transport)
}

func (s *scripted) webURL() string {
	if s.web == nil {
		return ""
	}
	return s.web.url
}

// self is the path of the test program.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
