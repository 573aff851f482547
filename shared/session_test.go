package shared

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// opened runs a session with a legacy server that hands all later messages to
// serve.
func opened(t *testing.T, serve func(*fakeConn, *jsonrpc.Message) error) (*host, *fakeConn) {
	t.Helper()
	d := &dialer{servers: list(func(c *fakeConn, m *jsonrpc.Message) error {
		if m.Method == "initialize" || m.Method == "notifications/initialized" {
			return legacy(c, m)
		}
		return serve(c, m)
	})}
	h := openSession(t, DiscoverFallback, &transportpb.OpenSession{}, d.dial)
	if f := h.next(); f.GetInit() == nil {
		t.Fatalf("got %v", f)
	}
	return h, d.conns[0]
}

func quiet(*fakeConn, *jsonrpc.Message) error { return nil }

func TestFailedWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := opened(t, func(c *fakeConn, m *jsonrpc.Message) error {
			switch m.Method {
			case "fails":
				return &WriteError{Delivered: transportpb.TransportError_DELIVERED_NO, Message: "refused"}
			case "breaks":
				return errors.New("the cable is cut")
			}
			return nil
		})
		h.call(1, "fails")
		e := h.next().GetResponse().GetTransportError()
		if e.GetDelivered() != transportpb.TransportError_DELIVERED_NO || e.GetMessage() != "refused" {
			t.Errorf("got %v", e)
		}
		h.call(2, "breaks")
		end := h.next().GetEnd()
		if end.GetClass() != transportpb.SessionEnd_CLASS_TRANSPORT || !strings.Contains(end.GetMessage(), "cable") || !end.GetRetryable() {
			t.Errorf("got %v", end)
		}
		<-h.over
	})
}

// A failure that the Conn reads takes the place of an answer.
func TestReadFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c := opened(t, quiet)
		h.call(1, "m")
		synctest.Wait()
		c.in <- Incoming{Message: jsonrpc.Message{ID: []byte("1")}, Failure: &WriteError{
			Reason: transportpb.TransportError_REASON_OVERSIZE, Message: "too much"}}
		r := h.next().GetResponse()
		if r.GetId() != 1 || r.GetTransportError().GetReason() != transportpb.TransportError_REASON_OVERSIZE {
			t.Errorf("got %v", r)
		}
	})
}

// Whatever a server sends, what goes to the host is UTF-8.
func TestNotUTF8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c := opened(t, quiet)
		h.call(1, "m")
		h.call(2, "m")
		synctest.Wait()
		c.reply(`{"jsonrpc":"2.0","id":1,"result":{"t":"a` + "\xff\xfe" + `b"}}`)
		c.reply(`{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":"` + "\x80" + `","data":"` + "\x80" + `"}}`)
		c.reply(`{"jsonrpc":"2.0","method":"n` + "\x80" + `","params":["` + "\x80" + `"]}`)
		if got := h.next().GetResponse().GetResult(); string(got) != `{"t":"a�b"}` {
			t.Errorf("result %q", got)
		}
		if got := h.next().GetResponse().GetRpcError(); got.GetMessage() != "�" || string(got.GetData()) != `"�"` {
			t.Errorf("error %q", got)
		}
		if got := h.next().GetNotification(); got.GetMethod() != "n�" || string(got.GetParams()) != `["�"]` {
			t.Errorf("notification %q", got)
		}
	})
}

// When the connection ends, calls under way get no response, those that were
// never sent get one that says so, and SessionEnd comes last.
func TestEndWithCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		h, c := opened(t, func(_ *fakeConn, m *jsonrpc.Message) error {
			if m.Method == "blocks" {
				<-stuck
			}
			return nil
		})
		h.call(1, "under way")
		h.call(2, "blocks")
		h.call(3, "waits")
		synctest.Wait()
		c.fault <- &EndError{Class: transportpb.SessionEnd_CLASS_SESSION_LOST, Message: "who are you?", Retryable: true}
		r := h.next().GetResponse()
		if r.GetId() != 3 || r.GetTransportError().GetDelivered() != transportpb.TransportError_DELIVERED_NO {
			t.Errorf("got %v", r)
		}
		if end := h.next().GetEnd(); end.GetClass() != transportpb.SessionEnd_CLASS_SESSION_LOST || end.GetMessage() != "who are you?" {
			t.Errorf("got %v", end)
		}
		close(stuck)
		<-h.over
	})
}

// slowConn takes its time to close.
type slowConn struct {
	*fakeConn
	release chan struct{}
}

func (c *slowConn) Close(ctx context.Context) error {
	<-c.release
	return c.fakeConn.Close(ctx)
}

// The host hears of an end at once, however long clearing up takes; the stream
// ends after that.
func TestEndIsToldBeforeClearingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &slowConn{newFakeConn(legacy), make(chan struct{})}
		h := openSession(t, DiscoverFallback, &transportpb.OpenSession{}, func() (Conn, error) { return c, nil })
		h.next()
		c.fault <- errors.New("gone")
		if end := h.next().GetEnd(); end.GetMessage() != "gone" {
			t.Errorf("got %v", end)
		}
		synctest.Wait()
		select {
		case <-h.over:
			t.Error("the stream ended before the connection was closed")
		default:
		}
		close(c.release)
		<-h.over
	})
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		h, c := opened(t, func(_ *fakeConn, m *jsonrpc.Message) error {
			if m.Method == "first" {
				<-block
			}
			return nil
		})
		h.call(1, "first")
		h.call(2, "unsent")
		synctest.Wait()
		h.cancelCall(2) // the server never hears of it
		h.cancelCall(1)
		h.cancelCall(77)
		synctest.Wait()
		close(block)
		synctest.Wait()
		c.reply(`{"jsonrpc":"2.0","id":1,"result":{}}`) // late: nobody waits for it
		c.reply(`{"jsonrpc":"2.0","method":"n"}`)
		if f := h.next(); f.GetNotification() == nil {
			t.Errorf("got %v", f)
		}
		after := c.sent()[2:]
		want := `[{"jsonrpc":"2.0","id":1,"method":"first"} {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}]`
		if fmt.Sprint(after) != want {
			t.Errorf("got  %v\nwant %s", after, want)
		}
	})
}

// A server that does not read costs bounded memory and holds up nothing else:
// calls fail at once, and the session can be closed.
func TestServerDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c := opened(t, func(c *fakeConn, m *jsonrpc.Message) error {
			<-c.closed
			return errors.New("closed")
		})
		for id := range uint64(outboxMax + 50) {
			h.call(id+1, "m")
		}
		for range 40 {
			r := h.next().GetResponse()
			if r.GetTransportError().GetDelivered() != transportpb.TransportError_DELIVERED_NO {
				t.Fatalf("got %v", r)
			}
		}
		c.reply(`{"jsonrpc":"2.0","method":"n"}`)
		h.close()
		for {
			if end := h.next().GetEnd(); end != nil {
				if end.Class != transportpb.SessionEnd_CLASS_CLOSED {
					t.Errorf("got %v", end)
				}
				break
			}
		}
		<-h.over
	})
}

// A server that is being dialled can be given up.
func TestCloseDuringDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := make(chan struct{})
		h := openSession(t, DiscoverFallback, &transportpb.OpenSession{}, func() (Conn, error) { <-d; return newFakeConn(quiet), nil })
		synctest.Wait()
		h.close()
		synctest.Wait()
		close(d) // late: the connection is closed again
		if end := h.next().GetEnd(); end.GetClass() != transportpb.SessionEnd_CLASS_CLOSED {
			t.Errorf("got %v", end)
		}
		<-h.over
	})
}

// Stop ends sessions in order, and by force before its deadline.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c := opened(t, quiet)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := h.svc.Stop(ctx, nil); err != nil {
			t.Fatal(err)
		}
		if time.Since(began) > time.Second {
			t.Errorf("took %v", time.Since(began))
		}
		if end := h.next().GetEnd(); end.GetClass() != transportpb.SessionEnd_CLASS_CLOSED {
			t.Errorf("got %v", end)
		}
		select {
		case <-c.closed:
		default:
			t.Error("the connection is open")
		}
		again := make(chan *transportpb.HostFrame, 1)
		again <- &transportpb.HostFrame{Frame: &transportpb.HostFrame_Open{Open: &transportpb.OpenSession{}}}
		if err := h.svc.Open(&fakeStream{ctx: t.Context(), host: again}); err == nil {
			t.Error("a session after Stop")
		}
	})
}

// A session of protocol 2026-07-28 listens for the changes that the server
// announces, listens again when the server ends that, and tells the host that
// it may have missed some.
func TestSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listens := 0
		d := &dialer{servers: list(func(c *fakeConn, m *jsonrpc.Message) error {
			if m.Method == "subscriptions/listen" {
				if listens++; !strings.Contains(string(m.Params), `"toolsListChanged":true`) || !strings.Contains(string(m.Params), metaVersion) {
					t.Errorf("params %s", m.Params)
				}
				c.reply(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"}`)
				if listens == 1 {
					c.reply(`{"jsonrpc":"2.0","id":"listen","result":{}}`)
				}
				return nil
			}
			return modern(c, m)
		})}
		h := openSession(t, DiscoverFirst, &transportpb.OpenSession{}, d.dial)
		if f := h.next(); f.GetInit() == nil {
			t.Fatalf("got %v", f)
		}
		began := time.Now()
		if f := h.next(); f.GetNotification().GetMethod() != "notifications/tools/list_changed" {
			t.Errorf("got %v", f)
		}
		if took := time.Since(began); listens != 2 || took < listenPause || took > 2*listenPause {
			t.Errorf("%d requests after %v", listens, took)
		}
	})
}

func TestWithMeta(t *testing.T) {
	meta := []byte(`{"a":1,"b":{"c":2}}`)
	for _, c := range []struct{ params, want string }{
		{``, `{"_meta":{"a":1,"b":{"c":2}}}`},
		{`{}`, `{"_meta":{"a":1,"b":{"c":2}}}`},
		{`{"x":9007199254740993}`, `{"x":9007199254740993,"_meta":{"a":1,"b":{"c":2}}}`},
		{`{"_meta":{"a":5,"t":"p"},"x":1}`, `{"_meta":{"a":5,"t":"p","b":{"c":2}},"x":1}`},
		{`{"_meta":null}`, `{"_meta":{"a":1,"b":{"c":2}}}`},
		{`[1]`, `[1]`},
	} {
		if got := string(withMeta([]byte(c.params), meta)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.params, got, c.want)
		}
	}
}

// Log lines never make anybody wait; what is too much is counted.
func TestLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var got []*transportpb.Log
		l := newLogs(func(f *transportpb.PluginFrame) { <-release; got = append(got, f.GetLog()) })
		for range logQueue + 100 {
			l.add(transportpb.Log_LEVEL_INFO, "x", true)
		}
		close(release)
		synctest.Wait()
		log := l.logger(2) // debug
		log.Named("part").With("a", 1).Warn("said", "b", "two words")
		log.Trace("too quiet")
		l.flush()
		l.add(transportpb.Log_LEVEL_INFO, "late", true)
		last := got[len(got)-1]
		if last.Message != `part: said a=1 b="two words"` || last.Level != transportpb.Log_LEVEL_WARN || last.Stderr {
			t.Errorf("got %v", last)
		}
		if d := got[len(got)-2]; !strings.Contains(d.Message, "lines were dropped") {
			t.Errorf("got %v", d)
		}
	})
}
