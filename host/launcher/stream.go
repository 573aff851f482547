package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/internal/pluginrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// This file is one session on a plugin's Open stream: its beginning, what the
// plugin sends, and its end. What the host sends is in call.go.

// A stream is a session. Two goroutines belong to it: the reader takes the
// plugin's frames in their order and is the only caller of the handler; the
// sender is the only one that sends. Both end with the session.
type stream struct {
	process *process
	own     bool // the process is this session's alone
	handler session.Handler
	client  transportpb.Transport_OpenClient
	ctx     context.Context // of the stream
	cancel  context.CancelFunc
	spec    Spec
	learnt  []byte // what the plugin was told of earlier sessions

	info       session.Info
	begun      chan struct{} // closed when info is there
	out        chan outgoing // to the sender
	line       line
	cancelWake chan struct{}
	next       atomic.Uint64
	closing    atomic.Bool // the host asked for the end
	sender     sync.WaitGroup
	leaveOnce  sync.Once
	done       chan struct{}
	end        *session.End // valid after done
	told       bool         // the plugin said it; valid after done

	mu      sync.Mutex
	calls   map[uint64]*call // nil after the end
	cancels []*transportpb.Cancel
}

var _ session.Session = (*stream)(nil)

// queued bounds the frames that wait for the sender.
const queued = 64

// open opens a stream and asks for the session. It returns a stream also when
// it fails, for its process to be left. The stream lives on when the
// attempt's context ends.
func (t *transport) open(attempt context.Context, p *process, own bool, h session.Handler) (*stream, error) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &stream{
		process:    p,
		own:        own,
		handler:    h,
		ctx:        ctx,
		cancel:     cancel,
		spec:       t.spec,
		learnt:     t.spec.Memory.recall(),
		begun:      make(chan struct{}),
		out:        make(chan outgoing, queued),
		cancelWake: make(chan struct{}, 1),
		done:       make(chan struct{}),
		calls:      make(map[uint64]*call),
	}
	client, err := p.rpc.Open(ctx)
	if err != nil {
		cancel()
		return s, s.broken(err)
	}
	s.client = client
	ask := t.spec.message(t.launcher.info)
	ask.Learnt = s.learnt
	if deadline, ok := attempt.Deadline(); ok {
		ask.PatienceMs = uint64(max(1, time.Until(deadline).Milliseconds()))
	}
	s.enqueue(ctx, outgoing{frame: &transportpb.HostFrame{Frame: &transportpb.HostFrame_Open{Open: ask}}})
	s.sender.Go(s.send)
	t.launcher.running.Go(s.read)
	return s, nil
}

// initialised waits for the beginning of the session. The error is an
// *session.End.
func (s *stream) initialised(ctx context.Context) error {
	select {
	case <-s.begun:
		return nil
	case <-s.done:
		return s.end
	case <-ctx.Done():
		return gone("no session with the server yet: %v", context.Cause(ctx))
	}
}

// read takes frames until the session ends.
func (s *stream) read() {
	var end *session.End
	for end == nil {
		frame, err := s.client.Recv()
		if err != nil {
			end = s.broken(err)
			break
		}
		end = s.take(frame)
	}
	s.cancel()
	s.sender.Wait() // so that each call knows whether it was sent
	s.mu.Lock()
	s.calls = nil
	s.cancels = nil
	s.mu.Unlock()
	s.end = end
	close(s.done)
}

// take handles one frame. It returns how the session ended if that is the
// last one.
func (s *stream) take(frame *transportpb.PluginFrame) *session.End {
	switch f := frame.GetFrame().(type) {
	case *transportpb.PluginFrame_Response:
		s.mu.Lock()
		c := s.calls[f.Response.GetId()]
		delete(s.calls, f.Response.GetId())
		s.mu.Unlock()
		if c != nil {
			s.line.answered(c)
			c.reply <- f.Response
		}
	case *transportpb.PluginFrame_Notification:
		n := f.Notification
		s.handler.Notification(session.Notification{Method: n.GetMethod(), Params: raw(n.GetParams()), Related: n.GetRelatedRequest()})
	case *transportpb.PluginFrame_Request:
		r := f.Request
		s.handler.Request(session.ServerRequest{ID: raw(r.GetId()), Method: r.GetMethod(), Params: raw(r.GetParams()), Related: r.GetRelatedRequest()})
	case *transportpb.PluginFrame_Log:
		s.handler.Log(session.LogLine{Level: level(f.Log.GetLevel()), Text: f.Log.GetMessage(), Stderr: f.Log.GetStderr()})
	case *transportpb.PluginFrame_Init:
		select {
		case <-s.begun:
			return &session.End{Class: session.Protocol, Retryable: true, Message: "the plugin initialised one session twice"}
		default:
		}
		s.info = session.Info{
			ProtocolVersion: f.Init.GetProtocolVersion(),
			Result:          raw(f.Init.GetResult()),
			ServerInfo:      raw(f.Init.GetServerInfo()),
			Capabilities:    raw(f.Init.GetCapabilities()),
			Instructions:    f.Init.GetInstructions(),
			Process:         int(f.Init.GetProcessId()),
			Plugin:          s.process.run.number(),
		}
		s.spec.Memory.note(f.Init)
		close(s.begun)
	case *transportpb.PluginFrame_End:
		s.told = true
		return s.ended(f.End)
	}
	return nil // frames of a later version of the contract are passed over
}

// raw is a payload, nil if it is absent.
func raw(b []byte) json.RawMessage {
	if len(b) == 0 {
		return nil
	}
	return b
}

func level(l transportpb.Log_Level) string {
	switch l {
	case transportpb.Log_LEVEL_TRACE:
		return "trace"
	case transportpb.Log_LEVEL_DEBUG:
		return "debug"
	case transportpb.Log_LEVEL_WARN:
		return "warn"
	case transportpb.Log_LEVEL_ERROR:
		return "error"
	}
	return "info"
}

var classes = map[transportpb.SessionEnd_Class]session.Class{
	transportpb.SessionEnd_CLASS_UNSPECIFIED:  session.Gone,
	transportpb.SessionEnd_CLASS_TRANSPORT:    session.Gone,
	transportpb.SessionEnd_CLASS_SESSION_LOST: session.Lost,
	transportpb.SessionEnd_CLASS_AUTH:         session.Auth,
	transportpb.SessionEnd_CLASS_CONFIG:       session.ConfigFault,
	transportpb.SessionEnd_CLASS_PROTOCOL:     session.Protocol,
	transportpb.SessionEnd_CLASS_CLOSED:       session.Closed,
}

// ended is the end that the plugin reports. An end that the host did not ask
// for is not Closed: that is what a plugin says that was told to stop by
// another.
func (s *stream) ended(e *transportpb.SessionEnd) *session.End {
	end := &session.End{Class: classes[e.GetClass()], Message: e.GetMessage(), Retryable: e.GetRetryable()}
	if end.Message == "" {
		end.Message = "the plugin ended the session and did not say why"
	}
	switch {
	case end.Class == session.Closed && !s.asked():
		end.Class, end.Retryable = session.Gone, true
	case end.Class == session.Gone && s.closing.Load():
		end.Class, end.Retryable = session.Closed, false
	}
	for _, step := range e.GetPath() {
		switch v := step.GetStep().(type) {
		case *transportpb.PathStep_Attribute:
			end.Path = append(end.Path, v.Attribute)
		case *transportpb.PathStep_Key:
			end.Path = append(end.Path, v.Key)
		case *transportpb.PathStep_Index:
			end.Path = append(end.Path, int(v.Index))
		}
	}
	return end
}

// asked reports whether the host wants this session to end.
func (s *stream) asked() bool {
	return s.closing.Load() || s.process.launcher.ctx.Err() != nil
}

// broken is the end of a session whose stream broke. If the plugin died, it
// says how.
func (s *stream) broken(err error) *session.End {
	if s.asked() {
		return &session.End{Class: session.Closed, Message: "the session was closed"}
	}
	const lines = 6 // of the plugin's last words; enough for a panic's place
	p := s.process
	if how := p.ending(pipeGrace, lines); how != "" {
		return gone("plugin %q ended: %s", p.kind, how)
	}
	if errors.Is(err, io.EOF) {
		return gone("plugin %q ended the session and did not say why", p.kind)
	}
	return gone("the connection to plugin %q broke: %s", p.kind, brief(err))
}

// Info returns what the server said at initialisation.
func (s *stream) Info() session.Info { return s.info }

// Done is closed when the session has ended.
func (s *stream) Done() <-chan struct{} { return s.done }

// End says why the session ended, nil before.
func (s *stream) End() *session.End {
	select {
	case <-s.done:
		return s.end
	default:
		return nil
	}
}

// Close asks the plugin to end the session, waits for that, and leaves the
// process. A plugin that hangs is not waited for.
func (s *stream) Close(ctx context.Context) {
	if !s.closing.Swap(true) {
		s.enqueue(ctx, outgoing{frame: &transportpb.HostFrame{Frame: &transportpb.HostFrame_Close{Close: &transportpb.CloseSession{}}}})
	}
	patience, stop := s.untilStop(ctx)
	defer stop()
	patience, over := s.process.unlessHung(patience)
	defer over()
	select {
	case <-s.done:
	case <-patience.Done():
		s.cancel()
	}
	s.leave(ctx)
	s.quit()
}

// untilStop leaves some of the time for the process to be stopped in.
func (s *stream) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok && s.own {
		return context.WithTimeout(ctx, time.Until(deadline)*2/3)
	}
	return context.WithCancel(ctx)
}

// quit breaks the stream and waits for the session's goroutines, except for a
// handler that does not return.
func (s *stream) quit() {
	s.closing.Store(true)
	s.cancel()
	settle := time.NewTimer(s.process.launcher.timing.settle)
	defer settle.Stop()
	select {
	case <-s.done:
	case <-settle.C:
		s.process.launcher.log.Error("the handler of an ended session does not return", "server", s.spec.Server)
	}
}

// leave stops the process if it is the session's own, within ctx, and else
// gives it back. All callers wait for it.
func (s *stream) leave(ctx context.Context) {
	if s.own {
		s.process.stop(ctx)
		return
	}
	s.leaveOnce.Do(func() { s.process.launcher.release(s.process) })
}

// tooLarge says that a message cannot cross to the plugin; the stream would
// break over it.
func tooLarge(size int) *session.Failure {
	if size <= pluginrpc.MaxPayload {
		return nil
	}
	return &session.Failure{Reason: session.Oversize, Undelivered: true,
		Message: fmt.Sprintf("the message has %d bytes, and %d is the limit", size, pluginrpc.MaxPayload)}
}
