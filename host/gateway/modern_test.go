package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

const testMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

func modernHeaders(method, name string) []string {
	h := []string{headerVersion, "2026-07-28", headerMethod, method}
	if name != "" {
		h = append(h, headerName, name)
	}
	return h
}

func modernCall(id, tool string) string {
	return modernMessage(id, "tools/call", `"name":"`+tool+`","arguments":{},`+testMeta)
}

func modernMessage(id, method, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`
}

func TestModernStatus(t *testing.T) {
	f := newFront(t, nil)
	meta := func(members string) string {
		return `"_meta":{` + members + `}`
	}
	const version = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
	const caps = `"io.modelcontextprotocol/clientCapabilities":{}`
	discover := func(params string) string { return modernMessage("7", "server/discover", params) }
	h := modernHeaders
	for _, c := range []struct {
		name, body   string
		headers      []string
		status, code int
	}{
		{"discover", discover(testMeta), h("server/discover", ""), 200, 0},
		{"client info is optional", discover(meta(version + "," + caps)), h("server/discover", ""), 200, 0},
		{"no meta", discover(``), h("server/discover", ""), 400, -32602},
		{"no version in meta", discover(meta(caps)), h("server/discover", ""), 400, -32602},
		{"no capabilities", discover(meta(version)), h("server/discover", ""), 400, -32602},
		{"capabilities of the wrong kind", discover(meta(version + `,"io.modelcontextprotocol/clientCapabilities":[]`)), h("server/discover", ""), 400, -32602},
		{"client info of the wrong kind", discover(meta(version + "," + caps + `,"io.modelcontextprotocol/clientInfo":1`)), h("server/discover", ""), 400, -32602},
		{"unknown version", discover(strings.Replace(testMeta, "2026-07-28", "v999.0.0", 1)), []string{headerVersion, "v999.0.0", headerMethod, "server/discover"}, 400, codeUnsupportedVersion},
		{"unknown version in meta only", discover(strings.Replace(testMeta, "2026-07-28", "v999.0.0", 1)), h("server/discover", ""), 400, codeHeaderMismatch},
		{"old version in the header", discover(testMeta), []string{headerVersion, "2025-11-25", headerMethod, "server/discover"}, 400, codeHeaderMismatch},
		{"no version header", discover(testMeta), []string{headerMethod, "server/discover"}, 400, codeHeaderMismatch},
		{"no version at all", discover(``), []string{headerMethod, "server/discover"}, 400, codeHeaderMismatch},
		{"no method header", discover(testMeta), []string{headerVersion, "2026-07-28"}, 400, codeHeaderMismatch},
		{"other method header", discover(testMeta), h("tools/list", ""), 400, codeHeaderMismatch},
		{"method header in capitals", discover(testMeta), h("SERVER/DISCOVER", ""), 400, codeHeaderMismatch},
		{"list", modernMessage("7", "tools/list", testMeta), h("tools/list", ""), 200, 0},
		{"call", modernCall("7", "echo"), h("tools/call", "echo"), 200, 0},
		{"name header with spaces", modernCall("7", "echo"), h("tools/call", "  echo  "), 200, 0},
		{"name header in base64", modernCall("7", "echo"), h("tools/call", "=?base64?ZWNobw==?="), 200, 0},
		{"no name header", modernCall("7", "echo"), h("tools/call", ""), 400, codeHeaderMismatch},
		{"other name header", modernCall("7", "echo"), h("tools/call", "wrong"), 400, codeHeaderMismatch},
		{"resource header", modernMessage("7", "resources/read", `"uri":"a://b",`+testMeta), h("resources/read", "a://c"), 400, codeHeaderMismatch},
		{"task header", modernMessage("7", "tasks/get", `"taskId":"a",`+testMeta), h("tasks/get", "b"), 400, codeHeaderMismatch},
		{"no task header", modernMessage("7", "tasks/cancel", `"taskId":"a",`+testMeta), h("tasks/cancel", ""), 400, codeHeaderMismatch},
		{"no name in the body", modernMessage("7", "prompts/get", testMeta), h("prompts/get", "x"), 400, -32602},
		{"unknown tool", modernCall("7", "nope"), h("tools/call", "nope"), 400, -32602},
		{"unknown method", modernMessage("7", "no/such", testMeta), h("no/such", ""), 404, -32601},
		{"initialize", modernMessage("7", "initialize", testMeta), h("initialize", ""), 404, -32601},
		{"ping", modernMessage("7", "ping", testMeta), h("ping", ""), 404, -32601},
		{"setLevel", modernMessage("7", "logging/setLevel", testMeta), h("logging/setLevel", ""), 404, -32601},
		{"subscribe", modernMessage("7", "resources/subscribe", testMeta), h("resources/subscribe", ""), 404, -32601},
		{"unsubscribe", modernMessage("7", "resources/unsubscribe", testMeta), h("resources/unsubscribe", ""), 404, -32601},
		{"listen without filter", modernMessage("7", "subscriptions/listen", testMeta), h("subscriptions/listen", ""), 400, -32602},
		{"a session id changes nothing", modernCall("7", "echo"), append(h("tools/call", "echo"), headerSession, "stale"), 200, 0},
		{"panic", modernCall("7", "panic"), h("tools/call", "panic"), 500, -32603},
		{"initialize of the old era with a method header", `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, []string{headerVersion, "2025-11-25", headerMethod, "initialize"}, 200, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := f.post(c.body, c.headers...)
			m := res.message(t)
			code := 0
			if m.Error != nil {
				code = int(m.Error.Code)
			}
			if res.status != c.status || code != c.code || string(m.ID) != "7" || res.header.Get("Content-Type") != "application/json" {
				t.Fatalf("got %+v", res)
			}
			if code == codeUnsupportedVersion {
				equalJSON(t, string(m.Error.Data), `{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"v999.0.0"}`)
			}
		})
	}
	if res := f.post(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, h("notifications/cancelled", "")...); res.status != 202 {
		t.Fatalf("%+v", res)
	}
}

func TestDiscover(t *testing.T) {
	f := newFront(t, nil)
	res := f.post(modernMessage("1", "server/discover", testMeta), modernHeaders("server/discover", "")...)
	equalJSON(t, string(res.message(t).Result), `{"resultType":"complete","ttlMs":0,"cacheScope":"private",
		"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fake","version":"1"}},
		"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],
		"capabilities":`+string(f.Describe().Capabilities)+`,"instructions":"be kind"}`)
}

func TestModernResult(t *testing.T) {
	f := newFront(t, nil)
	const info = `"io.modelcontextprotocol/serverInfo":{"name":"fake","version":"1"}`
	for tool, want := range map[string]string{
		"echo":  `{"resultType":"complete","_meta":{` + info + `},"content":[],"structuredContent":{}}`,
		"meta":  `{"resultType":"complete","content":[],"_meta":{"a":1,` + info + `}}`,
		"input": `{"_meta":{` + info + `},"resultType":"input_required","inputRequests":{}}`,
	} {
		res := f.post(modernCall("1", tool), modernHeaders("tools/call", tool)...)
		equalJSON(t, string(res.message(t).Result), want)
	}
	// Said on a stream, it is the same.
	s := f.open(t.Context(), "POST", modernCall("1", "progress"), modernHeaders("tools/call", "progress")...)
	for range 3 {
		if m, e := s.message(); m.Method != "notifications/progress" || e.id != "" {
			t.Fatalf("%+v", e) // SEP-2575 has no resumption
		}
	}
	m, _ := s.message()
	equalJSON(t, string(m.Result), `{"resultType":"complete","_meta":{`+info+`},"content":[{"type":"text","text":"done"}]}`)
}

func TestAnswerExtraMembers(t *testing.T) {
	for result, want := range map[string]string{
		`{}`:             `{"x":1}`,
		` { } `:          `{"x":1}`,
		"{\n\"a\" : 2 }": `{"x":1,"a":2}`,
	} {
		a := answer{id: json.RawMessage("1"), extra: []byte(`"x":1`)}
		a.reply.Result = json.RawMessage(result)
		m := a.message()
		equalJSON(t, string(m.Result), want)
	}
}

func TestLogsOnlyOnDemand(t *testing.T) {
	f := newFront(t, nil)
	h := modernHeaders("tools/call", "log")
	if res := f.post(modernCall("1", "log"), h...); res.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%+v", res)
	}
	level := func(l string) string {
		return strings.Replace(modernCall("1", "log"), `"_meta":{`, `"_meta":{"io.modelcontextprotocol/logLevel":"`+l+`",`, 1)
	}
	if res := f.post(level("error"), h...); res.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%+v", res)
	}
	s := f.open(t.Context(), "POST", level("debug"), h...)
	if m, _ := s.message(); m.Method != "notifications/message" {
		t.Fatalf("%+v", m)
	}
}

func TestModernCannotBeAsked(t *testing.T) {
	f := newFront(t, nil)
	res := f.post(modernCall("1", "ask"), modernHeaders("tools/call", "ask")...)
	if !strings.Contains(res.body, "has no requests from server to client") {
		t.Fatalf("%+v", res)
	}
}

func TestModernDisconnectCancels(t *testing.T) {
	f := newFront(t, nil)
	for _, tool := range []string{"wait", "progress-wait"} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			res, err := http.DefaultClient.Do(f.request(ctx, "POST", modernCall("1", tool), modernHeaders("tools/call", tool)...))
			if err == nil {
				_ = res.Body.Close()
			}
		}()
		<-f.entered
		cancel()
		if cause := <-f.ended; cause != context.Canceled {
			t.Fatalf("cause %v", cause)
		}
	}
}

func TestParamHeaders(t *testing.T) {
	f := newFront(t, nil)
	f.schema = json.RawMessage(`{"type":"object","properties":{"where":{"type":"string","x-mcp-header":"Where"},"n":{"type":"integer","x-mcp-header":"N"},
		"deep":{"type":"object","properties":{"flag":{"type":"boolean","x-mcp-header":"Flag"}}},"plain":{"type":"string"}}}`)
	for _, c := range []struct {
		name, args string
		headers    []string
		ok         bool
	}{
		{"none", `{}`, nil, true},
		{"null", `{"where":null}`, nil, true},
		{"not mirrored", `{"plain":"x"}`, nil, true},
		{"same", `{"where":"here"}`, []string{"Mcp-Param-Where", "here"}, true},
		{"base64", `{"where":"Hello"}`, []string{"Mcp-Param-Where", "=?base64?SGVsbG8=?="}, true},
		{"literal without prefix", `{"where":"SGVsbG8="}`, []string{"Mcp-Param-Where", "SGVsbG8="}, true},
		{"literal without suffix", `{"where":"=?base64?SGVsbG8="}`, []string{"Mcp-Param-Where", "=?base64?SGVsbG8="}, true},
		{"bad padding", `{"where":"Hello"}`, []string{"Mcp-Param-Where", "=?base64?SGVsbG8?="}, false},
		{"bad characters", `{"where":"Hello"}`, []string{"Mcp-Param-Where", "=?base64?SGVs!!!bG8=?="}, false},
		{"other", `{"where":"here"}`, []string{"Mcp-Param-Where", "there"}, false},
		{"missing", `{"where":"here"}`, nil, false},
		{"superfluous", `{}`, []string{"Mcp-Param-Where", "here"}, false},
		{"number", `{"n":5}`, []string{"Mcp-Param-N", "5"}, true},
		{"number by value", `{"n":5.0}`, []string{"Mcp-Param-N", "5"}, true},
		{"other number", `{"n":5}`, []string{"Mcp-Param-N", "6"}, false},
		{"fraction", `{"n":5.5}`, []string{"Mcp-Param-N", "5.5"}, false},
		{"deep", `{"deep":{"flag":true}}`, []string{"Mcp-Param-Flag", "true"}, true},
		{"deep missing", `{"deep":{"flag":true}}`, nil, false},
		{"an object", `{"where":{}}`, []string{"Mcp-Param-Where", "{}"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := modernMessage("1", "tools/call", `"name":"headers","arguments":`+c.args+`,`+testMeta)
			res := f.post(body, append(modernHeaders("tools/call", "headers"), c.headers...)...)
			if c.ok && res.status != 200 || !c.ok && (res.status != 400 || res.message(t).Error.Code != codeHeaderMismatch) {
				t.Fatalf("%+v", res)
			}
			if c.name == "same" && !strings.Contains(res.body, `"text":"here"`) {
				t.Fatalf("the call did not get the header: %+v", res)
			}
		})
	}
}

func listenBody(id, filter string) string {
	return modernMessage(id, "subscriptions/listen", `"notifications":`+filter+`,`+testMeta)
}

func TestListen(t *testing.T) {
	f := newFront(t, nil)
	h := modernHeaders("subscriptions/listen", "")
	ctx, cancel := context.WithCancel(t.Context())
	s := f.open(ctx, "POST", listenBody(`"L"`, `{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a://x","bad://"]}`), h...)
	m, _ := s.message()
	if m.Method != "notifications/subscriptions/acknowledged" {
		t.Fatalf("%+v", m)
	}
	// Prompts can't change here, and one resource could not be subscribed to.
	equalJSON(t, string(m.Params), `{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a://x"]},"_meta":{"io.modelcontextprotocol/subscriptionId":"L"}}`)
	c := f.clients()[0]
	c.Notify("notifications/prompts/list_changed", nil)
	c.Notify("notifications/resources/list_changed", nil)
	c.Notify("notifications/message", []byte(`{"level":"info"}`))
	c.Notify("notifications/resources/updated", []byte(`{"uri":"b://x"}`))
	c.Notify("notifications/tools/list_changed", nil)
	c.Notify("notifications/resources/updated", []byte(`{"uri":"a://x","_meta":{"k":1}}`))
	c.Notify("notifications/resources/updated", []byte(`{"uri":"a://x/y"}`))
	for _, want := range []string{
		`{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"}}`,
		`{"uri":"a://x","_meta":{"k":1,"io.modelcontextprotocol/subscriptionId":"L"}}`,
		`{"uri":"a://x/y","_meta":{"io.modelcontextprotocol/subscriptionId":"L"}}`,
	} {
		m, _ := s.message()
		equalJSON(t, string(m.Params), want)
	}
	cancel()

	// With nothing to hear it ends at once, in order.
	s = f.open(t.Context(), "POST", listenBody("2", `{"promptsListChanged":true}`), h...)
	if m, _ := s.message(); m.Method != "notifications/subscriptions/acknowledged" {
		t.Fatalf("%+v", m)
	}
	if m, _ := s.message(); string(m.ID) != "2" || string(rawjson.Get(m.Result, "_meta", metaSubscriptionID)) != "2" {
		t.Fatalf("%+v", m)
	}

	// The host's end is a result.
	s = f.open(t.Context(), "POST", listenBody("3", `{"toolsListChanged":true}`), h...)
	s.message()
	if err := f.g.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m, _ := s.message(); string(m.ID) != "3" || rawjson.Text(m.Result, "resultType") != "complete" {
		t.Fatalf("%+v", m)
	}
}

func TestModernKeepAlive(t *testing.T) {
	f := newFront(t, func(c *Config) { c.KeepAlive = 20 * time.Millisecond })
	s := f.open(t.Context(), "POST", modernCall("1", "wait"), modernHeaders("tools/call", "wait")...)
	<-f.entered
	if e, _ := s.next(); e.comment == "" || e.id != "" {
		t.Fatalf("%+v", e)
	}
	close(f.release)
	if m, _ := s.message(); string(m.ID) != "1" {
		t.Fatalf("%+v", m)
	}
}

func TestModernStatusOfErrors(t *testing.T) {
	for code, want := range map[int64]int{-32601: 404, -32602: 400, -32020: 400, -32021: 400, -32022: 400, -32603: 200, -32002: 200, -1: 200} {
		if got := modernStatus(jsonrpc.Errorf(code, "x")); got != want {
			t.Errorf("%d: %d, want %d", code, got, want)
		}
	}
}
