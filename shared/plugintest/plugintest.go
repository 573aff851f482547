// Package plugintest is the acceptance suite for transport plugins of
// hermes-host: what any plugin, of the house or not, must do for a host.
//
// The plugin runs as a process and is driven over gRPC, as by the host. The
// MCP server at the other end is a [Peer], which the plugin's tests put behind
// their kind of transport:
//
//	func TestAcceptance(t *testing.T) {
//		plugintest.Run(t, plugintest.Suite{
//			Binary: buildPlugin(t),
//			Config: func(t *testing.T) string {
//				return `{"url": "` + servePeer(t, &plugintest.Peer{}) + `"}`
//			},
//			Invalid: map[string]string{"url": `{"url": "no url"}`},
//		})
//	}
package plugintest

import (
	"context"
	"testing"
	"time"

	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// A Suite is what the tests need to know of a plugin.
type Suite struct {
	// Binary is the plugin's program, and Env what it needs in its
	// environment beyond PATH, HOME and TMPDIR, as "NAME=value".
	Binary string
	Env    []string

	// Config returns a transport block as JSON for a server that is a fresh
	// [Peer].
	Config func(t *testing.T) string

	// Invalid are transport blocks that the plugin's Validate must refuse, by
	// the name of the attribute at fault.
	Invalid map[string]string

	// Unreachable is a valid transport block with no server behind it. Empty
	// leaves the test out.
	Unreachable string

	// NoCrash leaves out the test that wants [Peer].Crash to end the session,
	// for transports where a server's death can't be seen.
	NoCrash bool

	// NoOversize is set if the transport can't tell whose answer is too long.
	NoOversize bool
}

// Run runs the suite. Each test has a plugin process of its own.
func Run(t *testing.T, s Suite) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Suite)
		skip bool
	}{
		{"Describe", describe, false},
		{"Validate", validate, false},
		{"Init", initialise, false},
		{"Learnt", learnt, false},
		{"Fidelity", fidelity, false},
		{"Errors", rpcErrors, false},
		{"Order", order, false},
		{"Concurrent", concurrent, false},
		{"Cancel", cancel, false},
		{"Ask", ask, false},
		{"Ping", ping, false},
		{"Large", large, false},
		{"Oversize", oversize, s.NoOversize},
		{"Close", closing, false},
		{"Break", breaking, false},
		{"Crash", crash, s.NoCrash},
		{"Unreachable", unreachable, s.Unreachable == ""},
		{"FirstFrame", firstFrame, false},
		{"Stop", stop, false},
		{"Lifeline", lifeline, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.skip {
				t.Skip("not for this plugin")
			}
			c.test(t, s)
		})
	}
}

func (s Suite) start(t *testing.T) *Process { return Start(t, s.Binary, s.Env...) }

// open starts a plugin and opens an initialised session.
func (s Suite) open(t *testing.T) (*Process, *Session) {
	t.Helper()
	p := s.start(t)
	return p, s.session(t, p, &transportpb.OpenSession{})
}

func (s Suite) session(t *testing.T, p *Process, open *transportpb.OpenSession) *Session {
	t.Helper()
	open.Config = []byte(s.Config(t))
	session := p.Open(t, open)
	if session.Init == nil {
		t.Fatalf("no session: %v\n%s", session.AwaitEnd(), p.Output())
	}
	return session
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
