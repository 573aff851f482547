package shared

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// service is a plugin's side of the contract.
type service struct {
	transportpb.UnimplementedTransportServer

	about    *transportpb.DescribeResponse
	discover Discover
	validate func(block json.RawMessage) []*transportpb.Diagnostic
	dial     func(ctx context.Context, s Session, block json.RawMessage) (Conn, error)
	log      hclog.Logger
	exit     func() // lets the process end; returns at once

	// forced ends when sessions that are still closing must be ended by
	// force.
	forced context.Context
	force  context.CancelFunc

	mu       sync.Mutex
	stopped  bool           // no more sessions
	stopping chan struct{}  // closed with stopped
	sessions sync.WaitGroup // Add only under mu and while not stopped
}

// Describe says what the plugin is.
func (s *service) Describe(context.Context, *transportpb.DescribeRequest) (*transportpb.DescribeResponse, error) {
	return s.about, nil
}

// Validate checks one server's configuration.
func (s *service) Validate(_ context.Context, req *transportpb.ValidateRequest) (*transportpb.ValidateResponse, error) {
	return &transportpb.ValidateResponse{Diagnostics: s.validate(req.Config)}, nil
}

// Open runs one session.
func (s *service) Open(stream transportpb.Transport_OpenServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	open := first.GetOpen()
	if open == nil {
		return status.Error(codes.InvalidArgument, "the first frame of a session must be OpenSession")
	}
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return status.Error(codes.Unavailable, "the plugin is stopping")
	}
	s.sessions.Add(1)
	s.mu.Unlock()
	defer s.sessions.Done()
	newSession(s, stream, open).run()
	return nil
}

// Stop closes all sessions and lets the process exit. Shortly before the
// call's deadline what has not closed is ended by force.
func (s *service) Stop(ctx context.Context, _ *transportpb.StopRequest) (*transportpb.StopResponse, error) {
	within := orderlyEnd
	if by, ok := ctx.Deadline(); ok {
		within = max(0, time.Until(by)-forcedEnd)
	}
	s.closeAll(within)
	s.exit()
	return &transportpb.StopResponse{}, nil
}

// closeAll refuses new sessions and closes those there are: in order, and
// after within by force. It returns when none is left, or a moment after the
// force. It may be called several times, concurrently.
func (s *service) closeAll(within time.Duration) {
	s.mu.Lock()
	if !s.stopped {
		s.stopped = true
		close(s.stopping)
	}
	s.mu.Unlock()
	forcing := time.AfterFunc(within, s.force)
	defer forcing.Stop()
	none := make(chan struct{})
	go func() {
		s.sessions.Wait()
		close(none)
	}()
	giveUp := time.NewTimer(within + forcedEnd)
	defer giveUp.Stop()
	select {
	case <-none:
	case <-giveUp.C:
		s.log.Warn("leaving sessions behind that do not close")
	}
}
