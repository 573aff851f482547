package relay

import (
	"context"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

// A Server is what the relay needs of the supervisor that looks after a
// server's session.
type Server interface {
	// Call sends a request; see supervisor.Supervisor.Call for its errors.
	Call(ctx context.Context, req session.Request, opt supervisor.CallOptions) (session.Reply, error)
	// Session returns the live session, nil if there is none at present.
	Session() session.Session
	// Await waits for a session that is being made; see
	// supervisor.Supervisor.Await.
	Await(ctx context.Context) error
}

var _ Server = (*supervisor.Supervisor)(nil)
