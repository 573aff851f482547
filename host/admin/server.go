package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	maxRequest = 64 << 10
	// maxClients bounds the connections at a time. Each joined MCP client is
	// one.
	maxClients = 1000
	// writing bounds each write to a client that does not read.
	writing = 10 * time.Second
	// refresh is how often a watched status is looked at besides at every
	// change of state, since calls are counted without an event.
	refresh = time.Second
	// gather is how long changes are collected before a status is sent.
	gather = 50 * time.Millisecond
)

// Serve answers on l until ctx ends, and returns when the last answer has
// ended; l is closed then. The error says why it ended before.
func Serve(ctx context.Context, l net.Listener, h Host, log hclog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{h: h, ctx: ctx, slots: make(chan struct{}, maxClients)}
	mux := http.NewServeMux()
	for pattern, handle := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /v1/host":       s.host,
		"GET /v1/status":     s.status,
		"GET /v1/events":     s.events,
		"GET /v1/logs":       s.logs,
		"GET /v1/mcp":        s.join,
		"POST /v1/reconnect": s.reconnect,
		"POST /v1/park":      s.park,
		"POST /v1/reload":    s.reload,
	} {
		mux.HandleFunc(pattern, s.serve(handle))
	}
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	var err error
	select {
	case err = <-failed:
		err = fmt.Errorf("serving the admin socket: %w", err)
		cancel()
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.running.Wait() // also for connections that were taken over, which Shutdown does not know
	bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer stop()
	if server.Shutdown(bounded) != nil {
		_ = server.Close()
	}
	if err == nil {
		<-failed
	}
	return err
}

// server answers requests.
type server struct {
	h       Host
	ctx     context.Context // ends with the host
	slots   chan struct{}
	running sync.WaitGroup

	mu     sync.Mutex // held to add to running
	closed bool
}

// serve makes an answer of what a handler returns, and bounds how many run.
func (s *server) serve(handle func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		default:
			refuse(w, &Error{Code: Failed, Message: fmt.Sprintf("the host serves %d connections on its admin socket, and no more", maxClients)})
			return
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			refuse(w, &Error{Code: Stopping, Message: "the host is stopping"})
			return
		}
		s.running.Add(1)
		s.mu.Unlock()
		defer s.running.Done()
		r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
		if err := handle(w, r); err != nil {
			refuse(w, err)
		}
	}
}

// statusOf gives each code its HTTP status.
var statusOf = map[Code]int{
	UnknownServer: http.StatusNotFound,
	Disabled:      http.StatusConflict,
	Refused:       http.StatusUnprocessableEntity,
	Unsupported:   http.StatusNotImplemented,
	Stopping:      http.StatusServiceUnavailable,
	BadRequest:    http.StatusBadRequest,
	Failed:        http.StatusInternalServerError,
}

func refuse(w http.ResponseWriter, err error) {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Code: Failed, Message: err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(statusOf[e.Code])
	_ = json.NewEncoder(w).Encode(e) // a client that has gone
}

func answer(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that has gone
	return nil
}

func (s *server) host(w http.ResponseWriter, _ *http.Request) error { return answer(w, s.h.Info()) }

func (s *server) status(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Query().Get("watch") == "" {
		return answer(w, s.h.Status())
	}
	out := newLines(w)
	_, last, more := s.h.Events().Since(math.MaxUint64)
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	var sent []byte
	for {
		now, err := json.Marshal(s.h.Status())
		if err != nil {
			return err
		}
		if !bytes.Equal(now, sent) {
			if out.write(now) != nil {
				return nil
			}
			sent = now
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-s.ctx.Done():
			return nil
		case <-tick.C:
		case <-more:
			select {
			case <-time.After(gather):
			case <-s.ctx.Done():
			}
			_, last, more = s.h.Events().Since(last)
		}
	}
}

func (s *server) events(w http.ResponseWriter, r *http.Request) error {
	return stream(s, w, r, s.h.Events(), func(e Event) string { return e.Server })
}

func (s *server) logs(w http.ResponseWriter, r *http.Request) error {
	return stream(s, w, r, s.h.Logs(), func(l Line) string { return l.Server })
}

// stream writes the items of a feed, one per line, and with "follow" those to
// come until the client or the host ends: all, or those of one server, which is
// known as long as the configuration or the feed has it.
func stream[T any](s *server, w http.ResponseWriter, r *http.Request, feed *Feed[T], server func(T) string) error {
	q := r.URL.Query()
	name := q.Get("server")
	unwanted := func(item T) bool { return name != "" && server(item) != name }
	if name != "" {
		if err := Known(s.h.Status(), name); err != nil {
			if kept, _, _ := feed.Since(0); len(slices.DeleteFunc(kept, unwanted)) == 0 {
				return err
			}
		}
	}
	after, err := number(q.Get("after"), 0)
	if err != nil {
		return err
	}
	most, err := number(q.Get("last"), math.MaxUint64) // of those that are there
	if err != nil {
		return err
	}
	items, last, more := feed.Since(after) // before the client can know that it is connected
	out := newLines(w)
	for {
		items = slices.DeleteFunc(items, unwanted)
		if n := uint64(len(items)); n > most {
			items = items[n-most:]
		}
		most = math.MaxUint64
		for _, item := range items {
			line, err := json.Marshal(item)
			if err != nil {
				return err
			}
			if out.write(line) != nil {
				return nil
			}
		}
		if q.Get("follow") == "" {
			return nil
		}
		select {
		case <-more:
		case <-r.Context().Done():
			return nil
		case <-s.ctx.Done():
			return nil
		}
		items, last, more = feed.Since(last)
	}
}

// number reads a number from 0 up; without one it is absent.
func number(text string, absent uint64) (uint64, error) {
	if text == "" {
		return absent, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, &Error{Code: BadRequest, Message: fmt.Sprintf("%q is no number", text)}
	}
	return n, nil
}

// lines writes lines to a client, each at once.
type lines struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func newLines(w http.ResponseWriter) lines {
	w.Header().Set("Content-Type", "application/x-ndjson")
	l := lines{w, http.NewResponseController(w)}
	_ = l.control.Flush() // so that the client knows that it is connected
	return l
}

func (l lines) write(line []byte) error {
	_ = l.control.SetWriteDeadline(time.Now().Add(writing))
	if _, err := l.w.Write(append(line, '\n')); err != nil {
		return err
	}
	return l.control.Flush()
}

// read decodes a request's body, which may be empty.
func read(r *http.Request, v any) error {
	if err := json.NewDecoder(r.Body).Decode(v); err != nil && !errors.Is(err, io.EOF) {
		return &Error{Code: BadRequest, Message: "reading the request: " + err.Error()}
	}
	return nil
}

func (s *server) reconnect(w http.ResponseWriter, r *http.Request) error {
	var req reconnectRequest
	if err := read(r, &req); err != nil {
		return err
	}
	names, err := s.h.Reconnect(operator, req.Servers...)
	if err != nil {
		return err
	}
	return answer(w, reconnectRequest{names})
}

func (s *server) park(w http.ResponseWriter, r *http.Request) error {
	var req parkRequest
	if err := read(r, &req); err != nil {
		return err
	}
	if err := s.h.Park(operator, req.Server); err != nil {
		return err
	}
	return answer(w, req)
}

func (s *server) reload(w http.ResponseWriter, r *http.Request) error {
	var req reloadRequest
	if err := read(r, &req); err != nil {
		return err
	}
	var changes Changes
	var err error
	switch {
	case req.File == "":
		changes, err = s.h.Reload(r.Context(), operator, req.DryRun)
	case !req.DryRun || !filepath.IsAbs(req.File):
		err = &Error{Code: BadRequest, Message: "another file is for a dry run alone, and named by its absolute path"}
	default:
		changes, err = s.h.Preview(r.Context(), req.File)
	}
	if err != nil {
		return err
	}
	return answer(w, changes)
}

// operator names who asks, in logs.
const operator = "an operator"

type (
	reconnectRequest struct {
		Servers []string `json:"servers"`
	}
	parkRequest struct {
		Server string `json:"server"`
	}
	reloadRequest struct {
		DryRun bool   `json:"dryRun"`
		File   string `json:"file,omitempty"`
	}
)

// protocol is what the connection of a joined client is upgraded to.
const protocol = "hermes-mcp-stdio"

// join hands the connection over to an MCP client (RFC 9110, section 7.8).
func (s *server) join(w http.ResponseWriter, r *http.Request) error {
	if r.Header.Get("Upgrade") != protocol {
		return &Error{Code: BadRequest, Message: "joining wants an upgrade to " + protocol}
	}
	if err := s.h.Joinable(); err != nil {
		return err
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return fmt.Errorf("taking over the connection: %w", err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Time{})
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\nHermes-Version: %s\r\nHermes-Pid: %d\r\n\r\n",
		protocol, s.h.Info().Version, os.Getpid()); err != nil {
		return nil
	}
	_ = s.h.Join(s.ctx, joined{buffered.Reader, conn}) // it logs its own errors
	return nil
}

// joined is a connection of which some bytes were read already.
type joined struct {
	buffered io.Reader
	net.Conn
}

func (j joined) Read(p []byte) (int, error) { return j.buffered.Read(p) }
