package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// A sess is one session of a world. Calls on sessions of odd numbers notice
// the session's end by themselves, others are told by the supervisor.
type sess struct {
	w       *world
	n       int
	handler session.Handler
	once    sync.Once // died
	closed  sync.Once
	done    chan struct{}
	ending  atomic.Pointer[session.End]
	died    atomic.Int64 // when, in ns since the start; 0: it lives

	called atomic.Bool // a caller's request came
	hangs  atomic.Bool // nothing is answered any more

	crash   chan struct{} // closed when the server is gone and the plugin has not noticed
	crashed sync.Once

	mu      sync.Mutex
	version [catalog.Kinds]int // of each list
}

func newSess(w *world, n int, handler session.Handler) *sess {
	return &sess{w: w, n: n, handler: handler, done: make(chan struct{}), crash: make(chan struct{})}
}

// Info implements session.Session.
func (s *sess) Info() session.Info {
	return session.Info{ProtocolVersion: "2025-11-25", Capabilities: json.RawMessage(`{"tools":{},"resources":{},"prompts":{}}`)}
}

// Call implements session.Session.
func (s *sess) Call(ctx context.Context, req session.Request) (session.Reply, error) {
	kind, lists := listed[req.Method]
	if !lists {
		s.called.Store(true)
	}
	s.w.mu.Lock()
	handed := s.w.handed
	s.w.mu.Unlock()
	if !lists && handed != nil && bytes.Equal(req.Params, handed) {
		s.w.h.fault("session %d got a call after another supervisor had taken over", s.n)
	}
	select {
	case <-s.done:
		if d := s.deadFor(); d > 0 {
			s.w.h.fault("%s is sent to session %d, dead for %s", req.Method, s.n, d)
		}
		return session.Reply{}, session.Failuref(true, "written to a dead session")
	case <-s.crash:
		return session.Reply{}, session.Failuref(true, "broken pipe")
	default:
	}
	if ctx.Err() != nil {
		return session.Reply{}, context.Cause(ctx)
	}
	if !lists {
		defer s.ended(ctx)
	}
	if s.hangs.Load() {
		return session.Reply{}, s.hung(ctx)
	}
	if lists {
		return s.list(ctx, kind)
	}
	return calls[s.w.now().call].play(ctx, s, req)
}

// early reports whether the server speaks before its session is there.
func (s *sess) early() bool { return s.n%3 == 0 }

// speak sends two events. The second, which is true only now and then, has
// a list fetched.
func (s *sess) speak() {
	s.handler.Notification(session.Notification{Method: "notifications/message", Related: uint64(s.n)})
	s.handler.Notification(session.Notification{Method: kinds[catalog.Prompts].changed, Related: uint64(s.n)})
}

// wait takes d, or until the world thaws. The error is the cause of ctx if that
// ends first, or that of a call whose server or session is gone. Zero d is for
// ever.
func (s *sess) wait(ctx context.Context, d time.Duration) error {
	var timer <-chan time.Time
	if d > 0 {
		timer = time.After(d)
	}
	var done <-chan struct{}
	if s.n%2 == 1 {
		done = s.done
	}
	select {
	case <-timer:
	case <-s.w.thaw:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-done:
		return session.Failuref(false, "the session has ended")
	case <-s.crash:
		return session.Failuref(false, "end of stream")
	}
	return nil
}

// Notify implements session.Session.
func (s *sess) Notify(string, json.RawMessage) error { return nil }

// Answer implements session.Session.
func (s *sess) Answer(json.RawMessage, session.Reply) error { return nil }

// Healthy implements session.Session.
func (s *sess) Healthy(ctx context.Context) error {
	select {
	case <-s.crash:
		s.w.h.event("session %d is checked: its server is gone", s.n)
		return session.Failuref(true, "broken pipe")
	default:
	}
	if s.hangs.Load() {
		s.w.h.event("session %d is checked: it hangs", s.n)
		return s.hung(ctx)
	}
	m := healths[s.w.now().health]
	s.w.h.event("session %d is checked: %s", s.n, m.name)
	return m.play(ctx, s)
}

// Done implements session.Session.
func (s *sess) Done() <-chan struct{} { return s.done }

// End implements session.Session.
func (s *sess) End() *session.End { return s.ending.Load() }

// Close implements session.Session.
func (s *sess) Close(ctx context.Context) {
	s.closed.Do(func() {
		s.w.mu.Lock()
		s.w.closing = time.Now()
		takes := s.w.manners.close
		s.w.mu.Unlock()
		s.w.h.event("session %d is being closed", s.n)
		if takes > 0 {
			_ = s.w.wait(ctx, takes)
		}
		s.die(&session.End{Class: session.Closed, Message: "closed"})
		s.w.left()
	})
}

// die ends the session. A nil end is a plugin's bug.
func (s *sess) die(end *session.End) {
	s.once.Do(func() {
		s.w.h.event("session %d has ended: %v", s.n, end)
		s.died.Store(max(1, int64(time.Since(s.w.h.start))))
		s.ending.Store(end)
		close(s.done)
	})
}

// deadFor returns how long ago the session ended, 0 if it lives or ended in
// this very instant.
func (s *sess) deadFor() time.Duration {
	if at := s.died.Load(); at > 0 {
		return time.Since(s.w.h.start) - time.Duration(at)
	}
	return 0
}

var listed = map[string]catalog.Kind{
	"tools/list": catalog.Tools, "resources/list": catalog.Resources,
	"resources/templates/list": catalog.Templates, "prompts/list": catalog.Prompts,
}

// list answers a request for a list.
func (s *sess) list(ctx context.Context, kind catalog.Kind) (session.Reply, error) {
	if kind == catalog.Templates {
		return session.Reply{Error: jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "Method not found")}, nil
	}
	m := lists[s.w.now().list]
	version := s.versions()[kind] // what a slow answer says is what was true when it was asked for
	rpc, err := m.play(ctx, s, kind)
	s.w.h.event("session %d lists %s: %s, %v", s.n, kinds[kind].member, m.name, err)
	if err != nil || rpc != nil {
		return session.Reply{Error: rpc}, err
	}
	return session.Reply{Result: render(kind, s.n, version)}, nil
}

func (s *sess) versions() [catalog.Kinds]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// change changes a list and says so.
func (s *sess) change(kind catalog.Kind) {
	s.mu.Lock()
	s.version[kind]++
	s.mu.Unlock()
	s.handler.Notification(session.Notification{Method: kinds[kind].changed})
}

// kinds are the lists that a session has. An entry's name tells session,
// version and place.
var kinds = map[catalog.Kind]struct{ member, changed, name, entry string }{
	catalog.Tools:     {"tools", "notifications/tools/list_changed", "t_%d_%d_%d", `{"name":%q,"inputSchema":{"type":"object"}}`},
	catalog.Resources: {"resources", "notifications/resources/list_changed", "r://%d/%d/%d", `{"uri":%q,"name":"r"}`},
	catalog.Prompts:   {"prompts", "notifications/prompts/list_changed", "p_%d_%d_%d", `{"name":%q}`},
}

// entries is how many there are in a list. The configuration may hide the last
// tool.
const entries = 3

func render(kind catalog.Kind, n, version int) json.RawMessage {
	f := kinds[kind]
	out := fmt.Appendf(nil, `{%q:[`, f.member)
	for i := range entries {
		if i > 0 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, f.entry, fmt.Sprintf(f.name, n, version, i))
	}
	return append(out, "]}"...)
}
