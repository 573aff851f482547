package shared

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// after is a server that takes so long to start, and then finds what was sent
// meanwhile.
func after(d time.Duration, of server) server {
	began := time.Now()
	return func(c *fakeConn, m *jsonrpc.Message) error {
		time.AfterFunc(time.Until(began.Add(d)), func() {
			select {
			case <-c.closed:
			default:
				_ = of(c, m)
			}
		})
		return nil
	}
}

// newOnly answers server/discover, and initialize not at all.
func newOnly(c *fakeConn, m *jsonrpc.Message) error {
	if m.Method == "initialize" {
		return nil
	}
	return modern(c, m)
}

func nothing(*fakeConn, *jsonrpc.Message) error { return nil }

// A server that leaves initialize unanswered is asked by server/discover before
// the host gives up, in the same process. Nobody else is, and nobody is started
// again for it.
func TestLateQuestion(t *testing.T) {
	const (
		asked    = "initialize server/discover"
		complete = " notifications/initialized"
	)
	for _, c := range []struct {
		name     string
		order    Discover
		open     *transportpb.OpenSession
		server   func() server
		version  string // or there is no session
		after    time.Duration
		dials    int
		methods  string // of the last connection
		learning string
	}{
		{"new alone", DiscoverFallback, &transportpb.OpenSession{}, func() server { return newOnly },
			"2026-07-28", 28 * time.Second, 1, asked, `"begin":"discover"`},
		{"new alone and slow", DiscoverFallback, &transportpb.OpenSession{}, func() server { return after(29*time.Second, newOnly) },
			"2026-07-28", 29 * time.Second, 1, asked, `"begin":"discover"`},
		{"new alone, wanted, and slow", DiscoverFallback, &transportpb.OpenSession{ProtocolVersion: "2026-07-28"}, func() server { return after(8*time.Second, newOnly) },
			"2026-07-28", 28 * time.Second, 2, asked, ""},
		{"new alone for an old client", DiscoverFallback, &transportpb.OpenSession{ClientVersion: "2025-06-18"}, func() server { return newOnly },
			"2026-07-28", 28 * time.Second, 1, asked, `"begin":"discover"`},
		{"little patience", DiscoverFallback, &transportpb.OpenSession{PatienceMs: 4000}, func() server { return newOnly },
			"2026-07-28", 3 * time.Second, 1, asked, `"begin":"discover"`},
		{"old and slow", DiscoverFallback, &transportpb.OpenSession{}, func() server { return after(25*time.Second, legacy) },
			"2025-06-18", 25 * time.Second, 1, "initialize" + complete, ""},
		{"old and very slow", DiscoverFallback, &transportpb.OpenSession{}, func() server { return after(29*time.Second, legacy) },
			"2025-06-18", 29 * time.Second, 1, asked + complete, ""},
		{"mute", DiscoverFallback, &transportpb.OpenSession{}, func() server { return nothing }, "", 0, 1, asked, ""},
		{"no time left", DiscoverFallback, &transportpb.OpenSession{ProtocolVersion: "2026-07-28", PatienceMs: 6000}, func() server { return nothing }, "", 0, 2, "initialize", ""},
		{"the host does not say", DiscoverFallback, &transportpb.OpenSession{PatienceMs: 0}, func() server { return newOnly }, "", 0, 1, "initialize", ""},
		{"an older version wanted", DiscoverFallback, &transportpb.OpenSession{ProtocolVersion: "2025-11-25"}, func() server { return newOnly }, "", 0, 1, "initialize", ""},
		{"not to be asked", DiscoverFallback, &transportpb.OpenSession{SkipDiscover: true}, func() server { return newOnly }, "", 0, 1, "initialize", ""},
		{"a transport of older versions", DiscoverNever, &transportpb.OpenSession{}, func() server { return newOnly }, "", 0, 1, "initialize", ""},
		{"asked already", DiscoverFirst, &transportpb.OpenSession{}, func() server { return nothing }, "", 0, 2, "initialize", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if c.open.PatienceMs == 0 && c.name != "the host does not say" {
					c.open.PatienceMs = 30_000
				}
				d := &dialer{servers: list(c.server())}
				began := time.Now()
				h := openSession(t, c.order, c.open, d.dial)
				if c.version == "" {
					time.Sleep(time.Minute)
					h.close()
				}
				f := h.next()
				if took := time.Since(began); f.GetInit().GetProtocolVersion() != c.version || c.version != "" && took != c.after {
					t.Errorf("after %v: %v", took, f)
				}
				synctest.Wait()
				if got := methods(d.conns[len(d.conns)-1]); got != c.methods || len(d.conns) != c.dials {
					t.Errorf("%d dials, then %s; want %d, %s", len(d.conns), got, c.dials, c.methods)
				}
				if learnt := string(f.GetInit().GetLearnt()); !strings.Contains(learnt, c.learning) || c.learning == "" && learnt != "" {
					t.Errorf("learnt %s, want %s", learnt, c.learning)
				}
				if c.version == "" || c.learning == "" {
					return
				}
				c.open.Learnt = f.GetInit().GetLearnt()
				began = time.Now()
				slow := time.Duration(c.open.PatienceMs) * time.Millisecond * 2 / 5
				d = &dialer{servers: list(after(slow, newOnly))}
				again := openSession(t, c.order, c.open, d.dial).next()
				if took := time.Since(began); again.GetInit().GetProtocolVersion() != c.version || took != slow || len(d.conns) != 1 {
					t.Errorf("the next session, after %v and %d dials: %v", took, len(d.conns), again)
				}
			})
		})
	}
}

// A question that cannot be written, since the server does not read, is no
// obstacle to the end.
func TestLateQuestionBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dialer{servers: list(func(c *fakeConn, m *jsonrpc.Message) error {
			if m.Method == "server/discover" {
				c.fault <- errors.New("it has closed its output")
				<-c.closed
			}
			return nil
		})}
		h := openSession(t, DiscoverFallback, &transportpb.OpenSession{PatienceMs: 30_000}, d.dial)
		if end := h.next().GetEnd(); !strings.Contains(end.GetMessage(), "closed its output") || len(d.conns) != 1 {
			t.Errorf("got %v after %d dials", end, len(d.conns))
		}
	})
}
