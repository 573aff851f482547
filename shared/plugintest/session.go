package plugintest

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// A Session is one Open stream, seen from the host's side.
type Session struct {
	Init *transportpb.SessionInit // nil if the session ended before

	t      testing.TB
	stream transportpb.Transport_OpenClient
	cancel context.CancelFunc
	ready  chan struct{} // closed when Init is there, or never will be
	ended  chan struct{} // closed when the stream has ended

	sendMu sync.Mutex

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan *transportpb.Response
	end     *transportpb.SessionEnd
	err     error
	after   int // frames after SessionEnd

	// What came unasked, in the order of arrival: notifications, requests,
	// and responses too, so that a test can see what came before what.
	frames chan *transportpb.PluginFrame
	logs   []*transportpb.Log
	logged chan struct{} // closed at the next log line
}

// Open opens a session and waits for SessionInit or SessionEnd.
func (p *Process) Open(t testing.TB, open *transportpb.OpenSession) *Session {
	t.Helper()
	s := p.OpenAsync(t, open)
	select {
	case <-s.ready:
	case <-time.After(patience):
		t.Fatalf("neither SessionInit nor SessionEnd within %v\n%s", patience, p.Output())
	}
	return s
}

// OpenAsync opens a session and does not wait; Init is not to be read.
func (p *Process) OpenAsync(t testing.TB, open *transportpb.OpenSession) *Session {
	t.Helper()
	if open.Server == "" {
		open.Server = "peer"
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := p.TransportClient.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s := &Session{
		t: t, stream: stream, cancel: cancel,
		ready:   make(chan struct{}),
		ended:   make(chan struct{}),
		logged:  make(chan struct{}),
		waiting: map[uint64]chan *transportpb.Response{},
		frames:  make(chan *transportpb.PluginFrame, 1<<14),
	}
	s.Send(&transportpb.HostFrame{Frame: &transportpb.HostFrame_Open{Open: open}})
	go s.receive()
	return s
}

func (s *Session) receive() {
	defer close(s.ended)
	defer close(s.frames)
	ready := sync.OnceFunc(func() { close(s.ready) })
	defer ready()
	for {
		f, err := s.stream.Recv()
		s.mu.Lock()
		if err != nil {
			s.err = err
			s.mu.Unlock()
			return
		}
		if s.end != nil {
			s.after++
		}
		switch f := f.Frame.(type) {
		case *transportpb.PluginFrame_Init:
			s.mu.Unlock()
			s.Init = f.Init
			ready()
			continue
		case *transportpb.PluginFrame_Log:
			s.logs = append(s.logs, f.Log)
			close(s.logged)
			s.logged = make(chan struct{})
		case *transportpb.PluginFrame_End:
			s.end = f.End
		case *transportpb.PluginFrame_Response:
			if ch := s.waiting[f.Response.Id]; ch != nil {
				delete(s.waiting, f.Response.Id)
				ch <- f.Response
			}
		}
		s.mu.Unlock()
		if f.GetLog() == nil && f.GetEnd() == nil {
			select {
			case s.frames <- f:
			default:
			}
		}
	}
}

// Send sends one frame.
func (s *Session) Send(f *transportpb.HostFrame) {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	_ = s.stream.Send(f) // a broken stream shows in receive
}

// Go sends a request and returns its id and the channel of its outcome.
func (s *Session) Go(method, params string) (uint64, <-chan *transportpb.Response) {
	ch := make(chan *transportpb.Response, 1)
	s.mu.Lock()
	s.next++
	id := s.next
	s.waiting[id] = ch
	s.mu.Unlock()
	s.Send(&transportpb.HostFrame{Frame: &transportpb.HostFrame_Request{Request: &transportpb.Request{
		Id: id, Method: method, Params: []byte(params),
	}}})
	return id, ch
}

// Tool calls a tool of a [Peer] and waits for the outcome.
func (s *Session) Tool(name, args string) *transportpb.Response {
	s.t.Helper()
	_, ch := s.GoTool(name, args)
	return s.Await(ch)
}

// GoTool calls a tool of a [Peer].
func (s *Session) GoTool(name, args string) (uint64, <-chan *transportpb.Response) {
	quoted, _ := json.Marshal(name) // a string always encodes
	return s.Go("tools/call", `{"name":`+string(quoted)+`,"arguments":`+args+`}`)
}

// Await waits for the outcome of a request.
func (s *Session) Await(ch <-chan *transportpb.Response) *transportpb.Response {
	s.t.Helper()
	select {
	case r := <-ch:
		return r
	case <-s.ended:
		select {
		case r := <-ch:
			return r
		default:
		}
		s.t.Fatalf("the session ended before the answer: %v %v", s.end, s.err)
	case <-time.After(patience):
		s.t.Fatalf("no answer within %v", patience)
	}
	return nil
}

// Unasked returns the next notification or request of the server.
func (s *Session) Unasked() *transportpb.PluginFrame {
	s.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case f, ok := <-s.frames:
			if !ok {
				s.t.Fatalf("the session ended: %v %v", s.end, s.err)
			}
			if f.GetResponse() == nil {
				return f
			}
		case <-timeout:
			s.t.Fatalf("nothing came within %v", patience)
		}
	}
}

// CloseSession asks for the orderly end.
func (s *Session) CloseSession() {
	s.Send(&transportpb.HostFrame{Frame: &transportpb.HostFrame_Close{Close: &transportpb.CloseSession{}}})
}

// Break breaks the stream.
func (s *Session) Break() { s.cancel() }

// Ended returns a channel that is closed when the stream has ended.
func (s *Session) Ended() <-chan struct{} { return s.ended }

// AwaitEnd waits until the stream has ended and returns its SessionEnd, nil if
// it broke without.
func (s *Session) AwaitEnd() *transportpb.SessionEnd {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.t.Fatalf("the session did not end within %v", patience)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.after > 0 {
		s.t.Errorf("%d frames came after SessionEnd", s.after)
	}
	return s.end
}

// AwaitLog waits for a log line that begins with prefix and returns the rest of
// it.
func (s *Session) AwaitLog(prefix string) string {
	s.t.Helper()
	timeout := time.After(patience)
	for {
		s.mu.Lock()
		for _, l := range s.logs {
			if rest, ok := strings.CutPrefix(l.Message, prefix); ok {
				s.mu.Unlock()
				return rest
			}
		}
		logged := s.logged
		s.mu.Unlock()
		select {
		case <-logged:
		case <-s.ended:
			s.t.Fatalf("the session ended without a log line %q", prefix)
		case <-timeout:
			s.t.Fatalf("no log line %q within %v", prefix, patience)
		}
	}
}

// Logs returns the log lines so far.
func (s *Session) Logs() []*transportpb.Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*transportpb.Log(nil), s.logs...)
}
