package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// Causes of contexts that belong to a session.
var (
	errSessionIdle    = errors.New("the session has expired")
	errSessionDeleted = errors.New("the client has ended the session")
	errSessionEvicted = errors.New("the session has made room for a newer one")
	errServerGone     = errors.New("the session's server is no longer configured")
	errClientGone     = errors.New("the client's connection is gone and was not resumed")
	errCancelledCall  = errors.New("the client has cancelled the request")
)

// ownStream is the event-id prefix of a session's own stream. Those of calls
// are numbers.
const ownStream = "s"

// A legacySession is one client of the era before 2026-07-28, over HTTP or
// stdio. It is the [relay.Client] of everything that it asks.
type legacySession struct {
	g        *Gateway
	name     string // of the endpoint
	endpoint relay.Endpoint
	id       string
	version  string
	info     json.RawMessage
	caps     json.RawMessage

	ctx    context.Context // of everything that belongs to the session
	cancel context.CancelCauseFunc

	own     *stream              // what belongs to no request; over stdio, everything
	asked   *questions           // requests to the client
	expired func(*legacySession) // removes the session from its table; nil over stdio

	mu      sync.Mutex
	calls   map[string]*call   // in flight, by id
	streams map[string]*stream // event streams of calls that can be resumed, by key
	order   []string           // keys of streams, oldest first
	streamN int                // for the next key
	refs    int                // HTTP requests being served
	since   time.Time          // when refs became 0
	timer   *time.Timer        // fires when the session may have been idle for long enough
	ended   bool
}

var _ relay.Client = (*legacySession)(nil)

// newSession makes a session that is joined to its endpoint and has no timer.
func (g *Gateway) newSession(name string, e relay.Endpoint, version string, init json.RawMessage) *legacySession {
	var f [2]json.RawMessage
	_ = rawjson.Members(init, f[:], "clientInfo", "capabilities") // the caller has parsed init
	s := &legacySession{
		g: g, name: name, endpoint: e,
		id: rand.Text(), version: version, info: f[0], caps: f[1],
		own:   &stream{key: ownStream, replay: g.cfg.ReplayBytes / 4, lossy: true},
		calls: make(map[string]*call),
	}
	s.asked = newQuestions()
	s.ctx, s.cancel = context.WithCancelCause(g.ctx)
	return s
}

func (s *legacySession) ID() string                    { return s.id }
func (s *legacySession) ProtocolVersion() string       { return s.version }
func (s *legacySession) Info() json.RawMessage         { return s.info }
func (s *legacySession) Capabilities() json.RawMessage { return s.caps }

// Notify queues a notification for the session's own stream.
func (s *legacySession) Notify(method string, params json.RawMessage) {
	if !s.own.add(&jsonrpc.Message{Method: method, Params: params}) {
		s.g.log.Debug("a notification was dropped", "session", s.tag(), "method", method)
	}
}

// Request asks the client something that belongs to none of its requests, over
// the session's own stream. The relay finds it by type assertion.
func (s *legacySession) Request(ctx context.Context, method string, params json.RawMessage) (session.Reply, error) {
	if !s.own.hasReader() {
		return session.Reply{}, errNoWay
	}
	return s.asked.ask(ctx, method, params, s.own.add)
}

// tag is what logs show of the session: enough to tell sessions apart, not
// enough to use one.
func (s *legacySession) tag() string { return s.id[:6] }

// acquire counts an HTTP request of the session, unless it has ended. Every
// true is followed by release.
func (s *legacySession) acquire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.refs++
	return true
}

func (s *legacySession) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refs--; s.refs == 0 {
		s.since = time.Now()
	}
}

// expire is the timer's function: it ends the session if it has been idle for
// long enough, else it sets the timer for when it could be.
func (s *legacySession) expire() {
	s.mu.Lock()
	idle := s.g.cfg.SessionIdle
	left := idle
	if s.refs == 0 && len(s.calls) == 0 {
		left = idle - time.Since(s.since)
	}
	if left > 0 && !s.ended {
		s.timer.Reset(left)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.expired(s)
	s.end(errSessionIdle)
}

// idleSince returns since when nothing has happened, and false if something
// is happening.
func (s *legacySession) idleSince() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since, s.refs == 0 && len(s.calls) == 0
}

// end cancels what is in flight, ends the streams and leaves the endpoint. It
// may be called several times; the first cause counts.
func (s *legacySession) end(cause error) {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	s.ended = true
	if s.timer != nil {
		s.timer.Stop()
	}
	streams := s.streams
	s.streams, s.order = nil, nil
	s.mu.Unlock()

	s.cancel(cause)
	s.asked.end(cause)
	s.own.close()
	for _, st := range streams {
		st.close()
	}
	s.endpoint.Leave(s)
	s.g.log.Debug("session ended", "session", s.tag(), "reason", cause)
}

// maxInFlight bounds the requests of one session.
const maxInFlight = 512

// begin registers a call. It fails if the session has ended, a request with
// the same id is in flight, or too many are.
func (s *legacySession) begin(c *call) *jsonrpc.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := idKey(c.id)
	if s.ended {
		return jsonrpc.Errorf(codeSessionNotFound, "the session has ended")
	}
	if _, dup := s.calls[key]; dup {
		return jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "a request with the id %s is already in flight", key)
	}
	if len(s.calls) >= maxInFlight {
		return jsonrpc.Errorf(codeServer, "more than %d requests of the session are in flight", maxInFlight)
	}
	s.calls[key] = c
	return nil
}

func (s *legacySession) finish(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, idKey(c.id))
	s.since = time.Now()
}

// abandon cancels the call that a notifications/cancelled names, if it is in
// flight.
func (s *legacySession) abandon(params json.RawMessage) {
	id := rawjson.Get(params, "requestId")
	if id == nil {
		return
	}
	s.mu.Lock()
	c := s.calls[idKey(id)]
	s.mu.Unlock()
	if c != nil {
		c.cancel(errCancelledCall)
	}
}

// idKey makes ids comparable: 1 and "1" differ, spellings of the same string
// do not.
func idKey(id json.RawMessage) string {
	if strings.IndexByte(string(id), '\\') >= 0 {
		return string(rawjson.Quote(rawjson.Unquote(id)))
	}
	return string(id)
}

// openStream makes the event stream of a POST, for resumption under its key.
func (s *legacySession) openStream(cancel func(error)) *stream {
	st := &stream{replay: s.g.cfg.ReplayBytes, cancel: cancel, grace: s.g.cfg.Grace}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streamN++
	st.key = strconv.Itoa(s.streamN)
	if s.ended {
		return st
	}
	if s.streams == nil {
		s.streams = make(map[string]*stream)
	}
	s.streams[st.key] = st
	s.order = append(s.order, st.key)
	s.forget()
	return st
}

// maxStreams bounds the finished streams that a session keeps for resumption.
const maxStreams = 64

// forget drops the oldest finished streams beyond what may be kept. The newest
// stays, whatever its size.
func (s *legacySession) forget() {
	total := 0
	for _, st := range s.streams {
		total += st.size()
	}
	for i := 0; i < len(s.order)-1 && (total > s.g.cfg.ReplayBytes || len(s.order) > maxStreams); {
		st := s.streams[s.order[i]]
		if !st.finished() {
			i++
			continue
		}
		total -= st.size()
		delete(s.streams, s.order[i])
		s.order = append(s.order[:i], s.order[i+1:]...)
	}
}

// resume finds a stream by its key, nil if it is not kept.
func (s *legacySession) resume(key string) *stream {
	if key == ownStream {
		return s.own
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[key]
}
