package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-host/hermes-host/internal/rawjson"
)

func TestInitialize(t *testing.T) {
	f := newFront(t, nil)
	for asked, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"2026-07-28": "2025-11-25", "1999-01-01": "2025-11-25", "next": "2025-11-25",
	} {
		res := f.post(`{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"` + asked + `"}}`)
		m := res.message(t)
		if res.status != 200 || res.header.Get("Content-Type") != "application/json" || string(m.ID) != `"a"` {
			t.Fatalf("%+v", res)
		}
		equalJSON(t, string(m.Result), `{"protocolVersion":"`+want+`","capabilities":`+string(f.Describe().Capabilities)+
			`,"serverInfo":{"name":"fake","version":"1"},"instructions":"be kind"}`)
		if id := res.header.Get(headerSession); len(id) < 26 {
			t.Fatalf("session id %q can be guessed", id)
		}
	}
	res := f.post(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
	if m := res.message(t); m.Error == nil || m.Error.Code != -32602 || res.header.Get(headerSession) != "" {
		t.Fatalf("initialize without params: %+v", res)
	}
}

// TestLegacyStatus holds the answers to requests that are wrong against what
// the transport's specification and the existing clients want.
func TestLegacyStatus(t *testing.T) {
	f := newFront(t, func(c *Config) { c.MaxRequestBytes = 1000 })
	live := f.initialize("2025-11-25")
	ended := f.initialize("2025-11-25")
	if res := f.do(http.MethodDelete, "", ended...); res.status != 204 {
		t.Fatalf("DELETE: %+v", res)
	}
	with := func(headers []string, more ...string) []string {
		return append(append([]string{}, headers...), more...)
	}
	list := `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
	for _, c := range []struct {
		name, method, body string
		headers            []string
		status, code       int
	}{
		{"ok", "POST", list, live, 200, 0},
		{"no version header", "POST", list, live[:2], 200, 0},
		{"accept anything", "POST", list, with(live, "Accept", "*/*"), 200, 0},
		{"no accept", "POST", list, with(live, "Accept", ""), 200, 0},
		{"by its server's path", "POST", list, with(live, "path", "/mcp/one"), 404, codeSessionNotFound},
		{"unknown server", "POST", list, with(live, "path", "/mcp/two"), 404, -32600},
		{"unknown path", "POST", list, with(live, "path", "/mcp/one/more"), 404, -32600},
		{"no session id", "POST", list, nil, 400, codeServer},
		{"no session id", "GET", "", nil, 400, codeServer},
		{"no session id", "DELETE", "", nil, 400, codeServer},
		{"unknown session", "POST", list, []string{headerSession, "nope"}, 404, codeSessionNotFound},
		{"unknown session", "GET", "", []string{headerSession, "nope"}, 404, codeSessionNotFound},
		{"unknown session", "DELETE", "", []string{headerSession, "nope"}, 404, codeSessionNotFound},
		{"ended session", "POST", list, ended, 404, codeSessionNotFound},
		{"ended session", "GET", "", ended, 404, codeSessionNotFound},
		{"ended session", "DELETE", "", ended, 404, codeSessionNotFound},
		{"ended session, notification", "POST", `{"jsonrpc":"2.0","method":"x"}`, ended, 404, codeSessionNotFound},
		{"bad version", "POST", list, []string{headerSession, live[1], headerVersion, "1.0"}, 400, codeUnsupportedVersion},
		{"bad version", "GET", "", []string{headerSession, live[1], headerVersion, "1.0"}, 400, codeUnsupportedVersion},
		{"bad version", "DELETE", "", []string{headerSession, live[1], headerVersion, "1.0"}, 400, codeUnsupportedVersion},
		{"no stateless GET", "GET", "", []string{headerVersion, "2026-07-28"}, 405, codeServer},
		{"no stateless DELETE", "DELETE", "", []string{headerVersion, "2026-07-28"}, 405, codeServer},
		{"method", "PUT", list, live, 405, codeServer},
		{"content type", "POST", list, with(live, "Content-Type", "text/plain"), 415, codeServer},
		{"content type with charset", "POST", list, with(live, "Content-Type", "application/json; charset=utf-8"), 200, 0},
		{"accept", "POST", list, with(live, "Accept", "text/html"), 406, codeServer},
		{"accept of GET", "GET", "", with(live, "Accept", "application/json"), 406, codeServer},
		{"too large", "POST", `{"jsonrpc":"2.0","id":7,"method":"` + strings.Repeat("x", 1000) + `"}`, live, 413, -32600},
		{"no JSON", "POST", `{"jsonrpc"`, live, 400, -32700},
		{"empty", "POST", ``, live, 400, -32700},
		{"no JSON-RPC", "POST", `{"jsonrpc":"1.0","id":7,"method":"x"}`, live, 400, -32600},
		{"a batch", "POST", `[` + list + `]`, live, 400, -32600},
		{"initialize again", "POST", `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, live, 400, -32600},
		{"method of the new era", "POST", `{"jsonrpc":"2.0","id":7,"method":"server/discover"}`, live, 200, -32601},
		{"method that nobody knows", "POST", `{"jsonrpc":"2.0","id":7,"method":"no/such"}`, live, 200, -32601},
		{"ping", "POST", `{"jsonrpc":"2.0","id":7,"method":"ping"}`, live, 200, 0},
		{"panic", "POST", toolCall("7", "panic"), live, 500, -32603},
		{"rebinding", "POST", list, with(live, "Host", "evil.example.com"), 403, codeServer},
		{"foreign origin", "POST", list, with(live, "Origin", "http://evil.example.com"), 403, codeServer},
		{"opaque origin", "POST", list, with(live, "Origin", "null"), 403, codeServer},
		{"loopback origin", "POST", list, with(live, "Origin", "http://localhost:6274"), 200, 0},
		{"Last-Event-ID of nothing", "GET", "", with(live, "Last-Event-ID", "99_1"), 400, codeServer},
		{"Last-Event-ID of nonsense", "GET", "", with(live, "Last-Event-ID", "abc"), 400, codeServer},
	} {
		t.Run(c.method+" "+c.name, func(t *testing.T) {
			res := f.do(c.method, c.body, c.headers...)
			m := res.message(t)
			code := 0
			if m.Error != nil {
				code = int(m.Error.Code)
			}
			if res.status != c.status || code != c.code || res.header.Get("Content-Type") != "application/json" {
				t.Fatalf("got %+v", res)
			}
			if c.status == 405 && res.header.Get("Allow") == "" {
				t.Fatal("405 without Allow (RFC 9110)")
			}
			if code == codeUnsupportedVersion && len(rawjson.Get(m.Error.Data, "supported")) == 0 {
				t.Fatalf("no versions in %s", m.Error.Data)
			}
		})
	}
}

func TestAnswerIsJSONUnlessMoreIsSaid(t *testing.T) {
	f := newFront(t, nil)
	h := f.initialize("2025-11-25")
	res := f.post(`{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"echo","arguments":{"n":9007199254740993,"f":1.50}}}`, h...)
	if res.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%+v", res)
	}
	equalJSON(t, res.body, `{"jsonrpc":"2.0","id":9007199254740993,"result":{"content":[],"structuredContent":{"n":9007199254740993,"f":1.50}}}`)

	s := f.open(t.Context(), "POST", toolCall("2", "progress"), h...)
	if e, _ := s.next(); e.data != "" || e.id == "" || e.retry == "" {
		t.Fatalf("the stream does not begin with a priming event: %+v", e)
	}
	for i := 1; i <= 3; i++ {
		m, e := s.message()
		if m.Method != "notifications/progress" || string(rawjson.Get(m.Params, "progress")) != fmt.Sprint(i) || e.id == "" {
			t.Fatalf("%+v", e)
		}
	}
	if m, _ := s.message(); string(m.ID) != "2" || m.Result == nil {
		t.Fatalf("%+v", m)
	}
	if e, more := s.next(); more {
		t.Fatalf("after the answer came %+v", e)
	}

	// Older versions have no priming events.
	s = f.open(t.Context(), "POST", toolCall("3", "progress"), f.initialize("2025-06-18")...)
	if e, _ := s.next(); e.data == "" || e.name != "message" {
		t.Fatalf("%+v", e)
	}
	// Who takes only one kind gets that kind.
	s = f.open(t.Context(), "POST", toolCall("4", "echo"), append(h, "Accept", "text/event-stream")...)
	if m, _ := s.message(); string(m.ID) != "4" {
		t.Fatalf("%+v", m)
	}
	res = f.post(toolCall("5", "progress"), append(h, "Accept", "application/json")...)
	if res.header.Get("Content-Type") != "application/json" || string(res.message(t).ID) != "5" {
		t.Fatalf("%+v", res)
	}
}

func TestBigResult(t *testing.T) {
	f := newFront(t, nil)
	for _, headers := range [][]string{f.initialize("2025-11-25"), modernHeaders("tools/call", "big")} {
		body := toolCall("1", "big")
		if headers[0] != headerSession {
			body = modernCall("1", "big")
		}
		res := f.post(body, headers...)
		if m := res.message(t); len(m.Result) < 1<<20 || res.header.Get("Content-Length") == "" {
			t.Fatalf("got %d bytes of a result, headers %v", len(m.Result), res.header)
		}
	}
}

func TestServerAsksClient(t *testing.T) {
	f := newFront(t, nil)
	h := f.initialize("2025-11-25")
	for answer, want := range map[string]string{
		`"result":{"action":"accept"}`:              "accept",
		`"error":{"code":-1,"message":"not today"}`: "refused: not today",
	} {
		s := f.open(t.Context(), "POST", toolCall("1", "ask"), h...)
		q, _ := s.message()
		if q.Method != "elicitation/create" || q.ID == nil {
			t.Fatalf("%+v", q)
		}
		// An answer from another session must not count.
		other := f.initialize("2025-11-25")
		reply := `{"jsonrpc":"2.0","id":` + string(q.ID) + `,` + answer + `}`
		if res := f.post(strings.Replace(reply, "accept", "forged", 1), other...); res.status != 202 {
			t.Fatalf("%+v", res)
		}
		if res := f.post(reply, h...); res.status != 202 || res.body != "" {
			t.Fatalf("%+v", res)
		}
		if m, _ := s.message(); !strings.Contains(string(m.Result), want) {
			t.Fatalf("%s", m.Result)
		}
	}
	// Without a stream there is no way to ask.
	res := f.post(toolCall("3", "ask"), append(h, "Accept", "application/json")...)
	if !strings.Contains(res.body, "no stream") {
		t.Fatalf("%+v", res)
	}
}

func TestCancel(t *testing.T) {
	f := newFront(t, nil)
	h := f.initialize("2025-11-25")
	done := make(chan answered, 1)
	go func() { done <- f.post(toolCall(`"x"`, "wait"), h...) }()
	<-f.entered
	if res := f.post(toolCall(`"x"`, "echo"), h...); res.status != 400 || res.message(t).Error.Code != -32600 {
		t.Fatalf("an id in flight was taken again: %+v", res)
	}
	// The same text as a number is another id; so is that id elsewhere.
	for _, cancel := range []string{`{"requestId":1}`, `{"requestId":"y"}`, `{}`} {
		f.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":`+cancel+`}`, h...)
	}
	f.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`, f.initialize("2025-11-25")...)
	select {
	case cause := <-f.ended:
		t.Fatalf("cancelled by somebody else's notice: %v", cause)
	default:
	}
	f.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"\u0078"}}`, h...)
	if cause := <-f.ended; cause != errCancelledCall {
		t.Fatalf("cause %v", cause)
	}
	if m := (<-done).message(t); m.Error == nil || m.Error.Code != codeCancelled {
		t.Fatalf("%+v", m)
	}
	if res := f.post(toolCall(`"x"`, "echo"), h...); res.status != 200 {
		t.Fatalf("the id stays taken: %+v", res)
	}
}

func TestOwnStream(t *testing.T) {
	f := newFront(t, nil)
	h := f.initialize("2025-11-25")
	c := f.clients()[0]
	if c.ProtocolVersion() != "2025-11-25" || string(c.Capabilities()) != `{"elicitation":{}}` || rawjson.Text(c.Info(), "name") != "t" {
		t.Fatalf("%s %s %s", c.ProtocolVersion(), c.Info(), c.Capabilities())
	}
	// What was said before the stream opened waits, and list_changed once.
	for range 5 {
		c.Notify("notifications/tools/list_changed", nil)
	}
	c.Notify("notifications/message", []byte(`{"level":"info","data":1}`))
	ctx, cancel := context.WithCancel(t.Context())
	s := f.open(ctx, "GET", "", h...)
	if e, _ := s.next(); e.id != "s_0" || e.data != "" || e.retry == "" {
		t.Fatalf("no priming event: %+v", e)
	}
	if m, _ := s.message(); m.Method != "notifications/tools/list_changed" {
		t.Fatalf("%+v", m)
	}
	m, last := s.message()
	if m.Method != "notifications/message" {
		t.Fatalf("%+v", m)
	}
	cancel()
	c.Notify("notifications/message", []byte(`{"level":"info","data":2}`))
	c.Notify("notifications/message", []byte(`{"level":"info","data":3}`))
	s = f.open(t.Context(), "GET", "", append(h, "Last-Event-ID", last.id)...)
	for _, want := range []string{"2", "3"} {
		if m, _ := s.message(); string(rawjson.Get(m.Params, "data")) != want {
			t.Fatalf("%+v", m)
		}
	}
	// A second stream takes the place of the first, whose client may be gone
	// without anybody having noticed.
	second := f.open(t.Context(), "GET", "", h...)
	if e, more := s.next(); more {
		t.Fatalf("the replaced stream said %+v", e)
	}
	c.Notify("notifications/message", []byte(`{"level":"info","data":4}`))
	for { // what the first had hardly written may come once more
		m, _ := second.message()
		if data := string(rawjson.Get(m.Params, "data")); data == "4" {
			break
		} else if data != "2" && data != "3" {
			t.Fatalf("%+v", m)
		}
	}
	f.do(http.MethodDelete, "", h...)
	for {
		if _, more := second.next(); !more {
			break
		}
	}
}

func TestResumeCall(t *testing.T) {
	f := newFront(t, nil)
	h := f.initialize("2025-11-25")
	ctx, cancel := context.WithCancel(t.Context())
	s := f.open(ctx, "POST", toolCall("1", "progress-wait"), h...)
	_, e := s.message()
	<-f.entered
	cancel()
	s = f.open(t.Context(), "GET", "", append(h, "Last-Event-ID", e.id)...)
	close(f.release)
	m, e := s.message()
	if string(m.ID) != "1" || !strings.Contains(string(m.Result), "released") {
		t.Fatalf("%+v", m)
	}
	if _, more := s.next(); more {
		t.Fatal("the resumed stream goes on after the answer")
	}
	// The answer is still there for a client that lost it, and nothing after it.
	s = f.open(t.Context(), "GET", "", append(h, "Last-Event-ID", strings.TrimSuffix(e.id, "3")+"1")...)
	if m, _ := s.message(); m.Method != "notifications/progress" {
		t.Fatalf("%+v", m)
	}
	if m, _ := s.message(); string(m.ID) != "1" {
		t.Fatalf("%+v", m)
	}
	res := f.do("GET", "", append(h, "Last-Event-ID", e.id)...)
	if res.status != http.StatusMethodNotAllowed || res.header.Get("Allow") == "" {
		t.Errorf("a stream that is complete and read to its end: %d %s", res.status, res.body)
	}
}

func TestDisconnectIsNoCancellation(t *testing.T) {
	for _, tool := range []string{"wait", "progress-wait"} {
		t.Run(tool, func(t *testing.T) {
			f := newFront(t, func(c *Config) { c.Grace = 50 * time.Millisecond })
			h := f.initialize("2025-11-25")
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				res, err := http.DefaultClient.Do(f.request(ctx, "POST", toolCall("1", tool), h...))
				if err == nil {
					_ = res.Body.Close()
				}
			}()
			<-f.entered
			at := time.Now()
			cancel()
			if cause := <-f.ended; cause != errClientGone || time.Since(at) < 50*time.Millisecond {
				t.Fatalf("cause %v after %v", cause, time.Since(at))
			}
		})
	}
}

func TestDeleteEndsCalls(t *testing.T) {
	f := newFront(t, nil)
	h := f.initialize("2025-11-25")
	done := make(chan answered, 1)
	go func() { done <- f.post(toolCall("1", "wait"), h...) }()
	<-f.entered
	if res := f.do(http.MethodDelete, "", h...); res.status != 204 {
		t.Fatalf("%+v", res)
	}
	if cause := <-f.ended; cause != errSessionDeleted {
		t.Fatalf("cause %v", cause)
	}
	if m := (<-done).message(t); m.Error == nil {
		t.Fatalf("%+v", m)
	}
}

func TestBatch(t *testing.T) {
	f := newFront(t, nil)
	h := f.initialize("2025-03-26")
	res := f.post(`[`+toolCall("1", "echo")+`,{"jsonrpc":"2.0","method":"notifications/roots/list_changed"},`+toolCall("2", "nope")+`,{"jsonrpc":"2.0","id":3,"method":"ping"},7]`, h...)
	all, err := rawjson.Elements([]byte(res.body))
	if err != nil || len(all) != 4 || res.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%+v", res)
	}
	for _, id := range []string{`"id":1,"result"`, `"id":2,"error"`, `"id":3,"result"`, `"id":null,"error"`} {
		if !strings.Contains(res.body, id) {
			t.Fatalf("no %s in %s", id, res.body)
		}
	}
	if res := f.post(`[{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}]`, h...); res.status != 202 {
		t.Fatalf("%+v", res)
	}
	s := f.open(t.Context(), "POST", `[`+toolCall("1", "progress")+`,`+toolCall("2", "echo")+`]`, h...)
	seen := map[string]bool{}
	for range 5 {
		m, _ := s.message()
		seen[m.Method+string(m.ID)] = true
	}
	if !seen["1"] || !seen["2"] || !seen["notifications/progress"] {
		t.Fatalf("%v", seen)
	}
	if res := f.post(`[]`, h...); res.status != 400 {
		t.Fatalf("%+v", res)
	}
}

// TestSameIDs: clients that use the same ids get their own
// answers.
func TestSameIDs(t *testing.T) {
	f := newFront(t, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			h := f.initialize("2025-11-25")
			for range 20 {
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"me":%d}}}`, i)
				if res := f.post(body, h...); !strings.Contains(res.body, fmt.Sprintf(`"me":%d}`, i)) {
					t.Errorf("client %d got %s", i, res.body)
				}
			}
		})
	}
	wg.Wait()
}

func TestKeepAlive(t *testing.T) {
	f := newFront(t, func(c *Config) { c.KeepAlive = 20 * time.Millisecond })
	s := f.open(t.Context(), "POST", toolCall("1", "wait"), f.initialize("2025-06-18")...)
	<-f.entered
	for range 3 {
		if e, _ := s.next(); e.comment == "" {
			t.Fatalf("%+v", e)
		}
	}
	close(f.release)
	if m, _ := s.message(); string(m.ID) != "1" {
		t.Fatalf("%+v", m)
	}
}

func TestShutdownInOrder(t *testing.T) {
	f := newFront(t, nil)
	h := f.initialize("2025-11-25")
	own := f.open(t.Context(), "GET", "", h...)
	done := make(chan answered, 1)
	go func() { done <- f.post(toolCall("1", "wait"), h...) }()
	<-f.entered
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.g.Shutdown(ctx) }()
	for { // streams that wait for events end at once
		if _, more := own.next(); !more {
			break
		}
	}
	if res := f.post(toolCall("2", "echo"), h...); res.status != 503 || res.header.Get("Retry-After") == "" {
		t.Fatalf("%+v", res)
	}
	cancel()
	if cause := <-f.ended; cause != errShutdown {
		t.Fatalf("cause %v", cause)
	}
	if m := (<-done).message(t); m.Error == nil {
		t.Fatalf("%+v", m)
	}
	if err := <-ended; err != context.Canceled {
		t.Fatalf("Shutdown = %v", err)
	}
	if n := f.g.Sessions(); n != 0 {
		t.Fatalf("%d sessions left", n)
	}
}
