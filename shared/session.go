package shared

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// closeTime bounds the orderly end of a single session.
const closeTime = 10 * time.Second

// A Session is what the kit tells a plugin about the session to make. Its
// methods may be called from any goroutine, also after the session's end.
type Session struct {
	// Server is the server's name in the host's configuration, for messages.
	Server string

	// Logger writes lines that the host's log shows as this session's.
	Logger hclog.Logger

	// MaxMessageBytes is the size over which a single message from the server
	// must fail alone; see [Incoming]. It is never 0 in a session that the
	// kit has made.
	MaxMessageBytes int

	logs  *logs
	notes *notes
}

// Stderr passes on one line of the server's own output. It never blocks: what
// the host doesn't take in time is dropped and counted.
func (s Session) Stderr(line string) {
	if s.logs != nil {
		s.logs.add(transportpb.Log_LEVEL_INFO, line, true)
	}
}

// session drives one MCP session: the stream to the host on one side, the
// Conn to the server on the other.
//
// Its goroutines: run (the stream's handler) decides the end; receive takes
// the host's frames and never blocks on the server; converse dials, does the
// handshake and then relays what the server sends; deliver writes to the
// server; logs sends log lines.
type session struct {
	svc    *service
	stream transportpb.Transport_OpenServer
	open   *transportpb.OpenSession
	about  Session
	logs   *logs
	hello  greeting
	was    memory // of earlier sessions

	began    time.Time
	patience time.Duration // of the host, for SessionInit; 0: it does not say

	ctx    context.Context // ends with the session
	cancel context.CancelCauseFunc
	closed chan struct{} // closed when the host has sent CloseSession
	broken chan error    // what ended the session from the writing side

	calls calls
	out   outbox

	mu    sync.Mutex
	conn  Conn
	ended bool // no Conn is accepted any more

	sendMu   sync.Mutex
	sendDone bool // SessionEnd has been sent
}

// errClosing is the cause of contexts that end since the session is closed.
var errClosing = errors.New("the session is being closed")

func newSession(svc *service, stream transportpb.Transport_OpenServer, open *transportpb.OpenSession) *session {
	s := &session{svc: svc, stream: stream, open: open, closed: make(chan struct{}), broken: make(chan error, 1)}
	s.ctx, s.cancel = context.WithCancelCause(stream.Context())
	s.logs = newLogs(s.send)
	s.hello = newGreeting(open)
	s.was = recall(open.Learnt)
	s.began = time.Now()
	s.patience = time.Duration(min(open.PatienceMs, 1<<40)) * time.Millisecond
	s.about = Session{
		Server:          open.Server,
		Logger:          s.logs.logger(svc.log.GetLevel()),
		MaxMessageBytes: MaxMessageBytes,
		logs:            s.logs,
		notes:           &notes{remembered: s.was.Conn},
	}
	if n := open.MaxMessageBytes; n > 0 && n < MaxMessageBytes {
		s.about.MaxMessageBytes = int(n)
	}
	s.calls.init()
	s.out.init(2 * MaxMessageBytes)
	return s
}

// run returns when nothing of the session is left, or at the latest when the
// service forces it.
func (s *session) run() {
	// Recv is only unblocked by the handler's return, so receive outlives run
	// by a moment.
	go s.receive()
	talked := make(chan error, 1)
	go func() { talked <- s.converse() }()

	var end *transportpb.SessionEnd
	talking, sudden := true, true
	select {
	case err := <-talked:
		talking, end = false, endOf(err)
	case err := <-s.broken:
		end = endOf(err)
	case <-s.closed:
		sudden, end = false, closedEnd("the host closed the session")
	case <-s.svc.stopping:
		sudden, end = false, closedEnd("the plugin was stopped")
	case <-s.ctx.Done():
		end = closedEnd("the host is gone") // nobody will read it
	}

	var sending sync.WaitGroup
	if sudden {
		// The host hears of it at once; clearing up is nobody's wait.
		sending.Go(func() { s.finish(end) })
	}
	if s.noConn() {
		s.cancel(errClosing) // ends a dial
	}
	s.closeConn()
	if talking {
		select {
		case <-talked:
		case <-s.svc.forced.Done():
		case <-time.After(closeTime):
		}
	}
	if !sudden {
		s.finish(end)
	}
	sending.Wait()
	s.out.wait()
}

// finish sends what is still to be said, SessionEnd last.
func (s *session) finish(end *transportpb.SessionEnd) {
	s.cancel(errClosing)
	for _, id := range s.out.close() {
		if s.calls.take(id) {
			s.fail(id, &WriteError{
				Reason:    transportpb.TransportError_REASON_CONNECTION,
				Delivered: transportpb.TransportError_DELIVERED_NO,
				Message:   "the session ended before the request was sent: " + end.Message,
			})
		}
	}
	s.logs.flush()
	s.send(&transportpb.PluginFrame{Frame: &transportpb.PluginFrame_End{End: end}})
}

// send sends one frame. It blocks while the host doesn't read; the break of
// the stream ends that. Frames after SessionEnd go nowhere.
func (s *session) send(f *transportpb.PluginFrame) {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	if s.sendDone {
		return
	}
	if f.GetEnd() != nil {
		s.sendDone = true
	}
	if err := s.stream.Send(f); err != nil {
		s.sendDone = true
		s.cancel(fmt.Errorf("the host's stream broke: %w", err))
	}
}

// setConn makes c the session's Conn, in place of an earlier one that has been
// closed. It returns false if the session is over; c is closed then.
func (s *session) setConn(c Conn) bool {
	s.mu.Lock()
	ended := s.ended
	if !ended {
		s.conn = c
	}
	s.mu.Unlock()
	if ended {
		s.closeWithin(c)
	}
	return !ended
}

func (s *session) noConn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn == nil
}

// closeConn closes the Conn there is and lets no other come.
func (s *session) closeConn() {
	s.mu.Lock()
	s.ended = true
	c := s.conn
	s.mu.Unlock()
	if c != nil {
		s.closeWithin(c)
	}
}

func (s *session) closeWithin(c Conn) {
	ctx, cancel := context.WithTimeout(s.svc.forced, closeTime)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		s.about.Logger.Debug("closing the connection", "error", err)
	}
}

func closedEnd(message string) *transportpb.SessionEnd {
	return &transportpb.SessionEnd{Class: transportpb.SessionEnd_CLASS_CLOSED, Message: message, Retryable: true}
}

// endOf says what an error of Dial, Read or Write means for the session.
func endOf(err error) *transportpb.SessionEnd {
	end := &transportpb.SessionEnd{Class: transportpb.SessionEnd_CLASS_TRANSPORT, Retryable: true}
	if known, ok := errors.AsType[*EndError](err); ok {
		end.Class, end.Retryable, end.Path = known.Class, known.Retryable, known.Path
	} else if failed, ok := errors.AsType[*WriteError](err); ok {
		switch failed.Reason {
		case transportpb.TransportError_REASON_AUTHORIZATION:
			end.Class, end.Retryable = transportpb.SessionEnd_CLASS_AUTH, false
		case transportpb.TransportError_REASON_SESSION_LOST:
			end.Class = transportpb.SessionEnd_CLASS_SESSION_LOST
		case transportpb.TransportError_REASON_INVALID:
			end.Class = transportpb.SessionEnd_CLASS_PROTOCOL
		}
	}
	if err != nil {
		end.Message = err.Error()
	}
	if end.Message == "" {
		end.Message = "the connection to the server ended for an unknown reason"
	}
	return end
}
