package shared

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// dialer dials one server after the other, the last for ever.
type dialer struct {
	conns   []*fakeConn
	servers []func(*fakeConn, *jsonrpc.Message) error
}

func (d *dialer) dial() (Conn, error) {
	c := newFakeConn(d.servers[min(len(d.conns), len(d.servers)-1)])
	d.conns = append(d.conns, c)
	return c, nil
}

func TestHandshake(t *testing.T) {
	ignoresDiscover := func(c *fakeConn, m *jsonrpc.Message) error {
		if m.Method == "initialize" {
			return legacy(c, m)
		}
		return nil
	}
	diesOnDiscover := func(c *fakeConn, m *jsonrpc.Message) error {
		if m.Method == "server/discover" {
			c.fault <- errors.New("bang")
			return nil
		}
		return legacy(c, m)
	}
	refusesByStatus := func(c *fakeConn, m *jsonrpc.Message) error {
		if m.Method == "server/discover" {
			return &WriteError{Reason: transportpb.TransportError_REASON_HTTP_STATUS, Message: "400"}
		}
		return legacy(c, m)
	}
	answers := func(text string) func(*fakeConn, *jsonrpc.Message) error {
		return func(c *fakeConn, m *jsonrpc.Message) error {
			if m.ID != nil {
				c.reply(strings.Replace(text, "ID", string(m.ID), 1))
			}
			return nil
		}
	}
	hesitates := func(c *fakeConn, m *jsonrpc.Message) error {
		if m.Method == "server/discover" && len(c.sent()) == 1 {
			c.reply(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}}`)
			return nil
		}
		return modern(c, m)
	}
	strict := func(c *fakeConn, m *jsonrpc.Message) error {
		if m.Method == "initialize" && !strings.Contains(string(m.Params), "2025-06-18") {
			c.reply(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2024-11-05","2025-06-18"]}}}`)
			return nil
		}
		return legacy(c, m)
	}
	stubborn := answers(`{"jsonrpc":"2.0","id":ID,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28","2025-11-25"]}}}`)
	wantsAuth := func(*fakeConn, *jsonrpc.Message) error {
		return &EndError{Class: transportpb.SessionEnd_CLASS_AUTH, Message: "401"}
	}

	wanted := &transportpb.OpenSession{ProtocolVersion: "2026-07-28"}

	for _, c := range []struct {
		name    string
		order   Discover
		open    *transportpb.OpenSession
		servers []func(*fakeConn, *jsonrpc.Message) error
		version string // or
		class   transportpb.SessionEnd_Class
		retry   bool
		dials   int
		methods string // of the last connection
	}{
		{"legacy by fallback", DiscoverFallback, nil, list(legacy), "2025-06-18", 0, false, 1, "initialize notifications/initialized"},
		{"modern by fallback", DiscoverFallback, nil, list(modern), "2026-07-28", 0, false, 2, "server/discover"},
		{"legacy, discover first", DiscoverFirst, nil, list(legacy), "2025-06-18", 0, false, 1, "server/discover initialize notifications/initialized"},
		{"modern, discover first", DiscoverFirst, nil, list(modern), "2026-07-28", 0, false, 1, "server/discover"},
		{"discover refused by status", DiscoverFirst, nil, list(refusesByStatus), "2025-06-18", 0, false, 1, "server/discover initialize notifications/initialized"},
		{"discover ignored", DiscoverFirst, nil, list(ignoresDiscover), "2025-06-18", 0, false, 2, "initialize notifications/initialized"},
		{"discover kills", DiscoverFirst, nil, list(diesOnDiscover), "2025-06-18", 0, false, 2, "initialize notifications/initialized"},
		{"modern wanted by name", DiscoverFallback, wanted, list(modern), "2026-07-28", 0, false, 1, "server/discover"},
		{"modern wanted of a legacy server", DiscoverFallback, wanted, list(legacy), "2025-06-18", 0, false, 2, "initialize notifications/initialized"},
		{"modern wanted and ignored", DiscoverFallback, wanted, list(ignoresDiscover), "2025-06-18", 0, false, 2, "initialize notifications/initialized"},
		{"modern wanted where it has no place", DiscoverNever, wanted, list(legacy), "2025-06-18", 0, false, 1, "initialize notifications/initialized"},
		{"refused and then not", DiscoverFirst, nil, list(hesitates), "2026-07-28", 0, false, 1, "server/discover server/discover"},
		{"an older version named", DiscoverFallback, nil, list(strict), "2025-06-18", 0, false, 2, "initialize notifications/initialized"},
		{"named and refused again", DiscoverFirst, nil, list(stubborn), "", transportpb.SessionEnd_CLASS_PROTOCOL, false, 1, "server/discover server/discover initialize"},
		{"skip discover", DiscoverFirst, &transportpb.OpenSession{SkipDiscover: true}, list(legacy), "2025-06-18", 0, false, 1, "initialize notifications/initialized"},
		{"older version wanted", DiscoverFirst, &transportpb.OpenSession{ProtocolVersion: "2025-03-26"}, list(legacy), "2025-06-18", 0, false, 1, "initialize notifications/initialized"},
		{"never", DiscoverNever, nil, list(modern), "", transportpb.SessionEnd_CLASS_PROTOCOL, false, 1, "initialize"},
		{"neither", DiscoverFallback, nil, list(modern, legacy), "", transportpb.SessionEnd_CLASS_PROTOCOL, false, 2, "server/discover"},
		{"unknown version", DiscoverNever, nil, list(answers(`{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"1999-01-01"}}`)), "",
			transportpb.SessionEnd_CLASS_PROTOCOL, false, 1, "initialize"},
		{"trouble of its own", DiscoverFallback, nil, list(answers(`{"jsonrpc":"2.0","id":ID,"error":{"code":-32603,"message":"no database"}}`)), "",
			transportpb.SessionEnd_CLASS_PROTOCOL, true, 1, "initialize"},
		{"authorization", DiscoverFirst, nil, list(wantsAuth), "", transportpb.SessionEnd_CLASS_AUTH, false, 1, "server/discover"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &dialer{servers: c.servers}
				open := c.open
				if open == nil {
					open = &transportpb.OpenSession{}
				}
				began := time.Now()
				h := openSession(t, c.order, open, d.dial)
				f := h.next()
				if c.version != "" {
					init := f.GetInit()
					if init.GetProtocolVersion() != c.version || !strings.Contains(string(init.GetServerInfo()), `"s"`) || len(init.GetResult()) == 0 {
						t.Fatalf("got %v", f)
					}
					if last := d.conns[len(d.conns)-1]; last.version != c.version {
						t.Errorf("Initialized was told %q", last.version)
					}
				} else if end := f.GetEnd(); end.GetClass() != c.class || end.GetRetryable() != c.retry || end.GetMessage() == "" {
					t.Fatalf("got %v", f)
				}
				if time.Since(began) > discoverPatience {
					t.Errorf("took %v", time.Since(began))
				}
				synctest.Wait()
				if got := methods(d.conns[len(d.conns)-1]); got != c.methods || len(d.conns) != c.dials {
					t.Errorf("%d dials, then %s; want %d, %s", len(d.conns), got, c.dials, c.methods)
				}
				for _, earlier := range d.conns[:len(d.conns)-1] {
					select {
					case <-earlier.closed:
					default:
						t.Error("an earlier connection was left open")
					}
				}
			})
		})
	}
}

func list[T any](all ...T) []T { return all }

// What the server says during the handshake comes after SessionInit, and its
// ping is answered.
func TestEarlyTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dialer{servers: list(func(c *fakeConn, m *jsonrpc.Message) error {
			if m.Method == "initialize" {
				c.reply(`{"jsonrpc":"2.0","method":"notifications/message","params":{"n":1}}`)
				c.reply(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
				c.reply(`{"jsonrpc":"2.0","id":"r","method":"roots/list"}`)
				c.reply(`{"jsonrpc":"2.0","id":99,"result":{}}`)
			}
			return legacy(c, m)
		})}
		h := openSession(t, DiscoverFallback, &transportpb.OpenSession{}, d.dial)
		if f := h.next(); f.GetInit() == nil {
			t.Fatalf("got %v", f)
		}
		if f := h.next(); string(f.GetNotification().GetParams()) != `{"n":1}` {
			t.Errorf("got %v", f)
		}
		if f := h.next(); string(f.GetRequest().GetId()) != `"r"` {
			t.Errorf("got %v", f)
		}
		if !slices.Contains(d.conns[0].sent(), `{"jsonrpc":"2.0","id":"p","result":{}}`) {
			t.Errorf("the ping was not answered: %q", d.conns[0].sent())
		}
	})
}
