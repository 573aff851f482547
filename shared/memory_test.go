package shared

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

type server = func(*fakeConn, *jsonrpc.Message) error

// What a detour has taught one session the later ones know, for as long as it
// is right; and what has become wrong costs a detour, not the session.
func TestMemory(t *testing.T) {
	named := func(name string, of server) server { // another release of a server
		return func(c *fakeConn, m *jsonrpc.Message) error {
			if m.Method == "initialize" {
				c.reply(strings.Replace(initializeAnswer, `"s"`, `"`+name+`"`, 1))
				return nil
			}
			return of(c, m)
		}
	}
	except := func(method string, what func(*fakeConn), of server) server {
		return func(c *fakeConn, m *jsonrpc.Message) error {
			if m.Method == method {
				what(c)
				return nil
			}
			return of(c, m)
		}
	}
	dies := func(c *fakeConn) {
		c.fault <- &EndError{Class: transportpb.SessionEnd_CLASS_TRANSPORT, Message: "exit status 1", Retryable: true}
	}
	mute := func(*fakeConn) {}
	both := func(c *fakeConn, m *jsonrpc.Message) error {
		if m.Method == "server/discover" {
			return modern(c, m)
		}
		return legacy(c, m)
	}
	speaks := func(version, refusal string) server {
		return func(c *fakeConn, m *jsonrpc.Message) error {
			if m.Method == "initialize" && !strings.Contains(string(m.Params), `"`+version+`"`) {
				c.reply(`{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no","data":` + refusal + `}}`)
				return nil
			}
			return legacy(c, m)
		}
	}
	slow := func(c *fakeConn, m *jsonrpc.Message) error {
		time.AfterFunc(8*time.Second, func() {
			select {
			case <-c.closed:
			default:
				_ = both(c, m)
			}
		})
		return nil
	}

	wanted := &transportpb.OpenSession{ProtocolVersion: "2026-07-28"}
	older := &transportpb.OpenSession{ClientVersion: "2025-03-26"}
	type turn struct {
		server  server
		dials   int
		methods string // of the last connection
	}
	const (
		ask  = "server/discover"
		init = "initialize notifications/initialized"
	)
	for _, c := range []struct {
		name  string
		order Discover
		open  *transportpb.OpenSession
		turns []turn
	}{
		{"an old server behind a newer protocol", DiscoverFallback, wanted, []turn{
			{legacy, 2, init}, {legacy, 1, init}, {legacy, 1, init},
			{modern, 2, ask}, {modern, 1, ask}, // it was updated
		}},
		{"one that dies of the question", DiscoverFallback, wanted, []turn{
			{except(ask, dies, legacy), 2, init}, {except(ask, dies, legacy), 1, init},
			{except("initialize", dies, modern), 2, ask}, {except("initialize", dies, modern), 1, ask},
		}},
		{"one that does not answer", DiscoverFirst, nil, []turn{
			{except(ask, mute, legacy), 2, init}, {except(ask, mute, legacy), 1, init},
		}},
		{"one that is slow", DiscoverFallback, wanted, []turn{
			{slow, 2, init}, {both, 1, ask}, {slow, 2, init}, {slow, 2, init}, {slow, 1, init},
		}},
		{"an update tells of itself", DiscoverFallback, wanted, []turn{
			{legacy, 2, init}, {named("s2", both), 1, init}, {named("s2", both), 1, ask},
		}},
		{"a new server behind pipes", DiscoverFallback, nil, []turn{
			{modern, 2, ask}, {modern, 1, ask},
			{except(ask, dies, legacy), 2, init}, {except(ask, dies, legacy), 1, init}, // it was set back
		}},
		{"a request costs nothing", DiscoverFirst, nil, []turn{
			{legacy, 1, ask + " " + init}, {legacy, 1, ask + " " + init}, {both, 1, ask},
		}},
		{"an older version", DiscoverNever, nil, []turn{
			{speaks("2025-06-18", `{"supported":["2025-06-18","2024-11-05"]}`), 2, init},
			{speaks("2025-06-18", `{"supported":["2025-06-18","2024-11-05"]}`), 1, init},
			{speaks("2025-11-25", `{}`), 2, init}, {speaks("2025-11-25", `{}`), 1, init},
		}},
		{"versions that are all wrong", DiscoverNever, nil, []turn{
			{speaks("2025-06-18", `{"supported":["2025-06-18"]}`), 2, init},
			{speaks("2024-11-05", `{"supported":["2024-11-05"]}`), 2, init}, {speaks("2024-11-05", `{}`), 1, init},
		}},
		{"an older client of both", DiscoverFirst, older, []turn{{both, 1, init}, {both, 1, init}}},
		{"an older client of a new server", DiscoverFirst, older, []turn{
			{modern, 2, ask}, {modern, 1, ask}, {except("initialize", dies, modern), 1, ask},
		}},
		{"an older client where the newer is wanted", DiscoverFallback, &transportpb.OpenSession{ProtocolVersion: "2026-07-28", ClientVersion: "2025-03-26"}, []turn{
			{both, 1, init}, {except("initialize", dies, modern), 2, ask},
		}},
		{"an older client, and a limit", DiscoverFirst, &transportpb.OpenSession{ProtocolVersion: "2024-11-05", ClientVersion: "2025-03-26"}, []turn{
			{speaks("2024-11-05", `{}`), 1, init},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var learnt []byte
			for i, turn := range c.turns {
				synctest.Test(t, func(t *testing.T) {
					d := &dialer{servers: list(turn.server)}
					open := &transportpb.OpenSession{Learnt: learnt}
					if c.open != nil {
						open.ProtocolVersion, open.ClientVersion = c.open.ProtocolVersion, c.open.ClientVersion
					}
					h := openSession(t, c.order, open, d.dial)
					f := h.next()
					if f.GetInit() == nil {
						t.Fatalf("session %d: %v", i, f)
					}
					if now := f.GetInit().Learnt; now != nil {
						learnt = now
					}
					synctest.Wait()
					if got := methods(d.conns[len(d.conns)-1]); got != turn.methods || len(d.conns) != turn.dials {
						t.Errorf("session %d: %d dials, then %s; want %d, %s; learnt %s", i, len(d.conns), got, turn.dials, turn.methods, learnt)
					}
				})
			}
		})
	}
}

// methods are those of what a connection has carried.
func methods(c *fakeConn) string {
	var all []string
	for _, text := range c.sent() {
		if m, err := jsonrpc.Parse([]byte(text)); err == nil && m.Method != "subscriptions/listen" {
			all = append(all, m.Method)
		}
	}
	return strings.Join(all, " ")
}

// The client's own version is the one that is offered.
func TestClientVersion(t *testing.T) {
	for _, c := range []struct{ limit, client, want string }{
		{"", "2025-03-26", "2025-03-26"},
		{"2026-07-28", "2025-03-26", "2025-03-26"},
		{"2024-11-05", "2025-03-26", "2024-11-05"},
		{"2025-06-18", "2024-11-05", "2024-11-05"},
		{"", "", "2025-11-25"},
		{"", "2019-01-01", "2025-11-25"},
	} {
		g := newGreeting(&transportpb.OpenSession{ProtocolVersion: c.limit, ClientVersion: c.client})
		if g.initialize != c.want {
			t.Errorf("limit %q and client %q: offers %s, want %s", c.limit, c.client, g.initialize, c.want)
		}
	}
}

// What the host has kept may be anything.
func TestMemoryOfAnother(t *testing.T) {
	for _, text := range []string{"", "x", "[]", `{"begin":"somehow"}`, `{"begin":3}`} {
		if m := recall([]byte(text)); m.Begin != "" || m.Versions != nil || m.Conn != "" {
			t.Errorf("%q is read as %+v", text, m)
		}
	}
}

// A plugin that has found out how to dial is asked to do so once, and what it
// says then is for later sessions.
func TestRedial(t *testing.T) {
	redial := func(c *fakeConn, m *jsonrpc.Message) error {
		if m.Method == "initialize" {
			c.fault <- ErrRedial
			return nil
		}
		return legacy(c, m)
	}
	for _, c := range []struct {
		name    string
		servers []server
		learnt  string // or there is no session
	}{
		{"once", list(redial, legacy), `"conn":"dial 1"`},
		{"for ever", list(redial), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &dialer{servers: c.servers}
				var s Session
				dial := func(about Session) (Conn, error) {
					s = about
					about.Advise("dial " + about.Remembered())
					about.Remember(fmt.Sprintf("dial %d", len(d.conns)))
					return d.dial()
				}
				f := openSessionAs(t, DiscoverFirst, &transportpb.OpenSession{}, dial).next()
				if len(d.conns) != 2 {
					t.Errorf("%d dials, want 2", len(d.conns))
				}
				if c.learnt == "" {
					if end := f.GetEnd(); end.GetClass() != transportpb.SessionEnd_CLASS_TRANSPORT || !end.GetRetryable() {
						t.Errorf("got %v", f)
					}
					return
				}
				if init := f.GetInit(); !strings.Contains(string(init.GetLearnt()), c.learnt) || init.GetAdvice() != "dial dial 0" {
					t.Errorf("got %v", f)
				}
				if s.Remember(strings.Repeat("x", maxRemembered+1)); s.Remembered() != "dial 1" {
					t.Errorf("remembered %q", s.Remembered())
				}
			})
		})
	}
}
