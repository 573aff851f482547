package plugintest

// What passes between host and server while a session lives.

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

func initialise(t *testing.T, s Suite) {
	_, session := s.open(t)
	i := session.Init
	if i.ProtocolVersion == "" {
		t.Error("no protocol version")
	}
	if name := rawjson.Text(i.ServerInfo, "name"); name != "peer" {
		t.Errorf("server info %s", i.ServerInfo)
	}
	if string(rawjson.Get(i.Capabilities, "tools", "listChanged")) != "true" {
		t.Errorf("capabilities %s", i.Capabilities)
	}
	if i.Instructions != "be kind" {
		t.Errorf("instructions %q", i.Instructions)
	}
	if rawjson.Get(i.Result, "capabilities") == nil {
		t.Errorf("the result is not the server's: %s", i.Result)
	}
}

func fidelity(t *testing.T, s Suite) {
	_, session := s.open(t)
	if r := session.Tool("precise", `{}`); string(r.GetResult()) != Precise {
		t.Errorf("got  %s\nwant %s", r.GetResult(), Precise)
	}
	const value = `{"z":9007199254740993,"a":[1.0,1e2,"é\u00e9"],"m":{"b":null,"a":true}}`
	want := `{"content":[],"structuredContent":` + value + `}`
	if r := session.Tool("echo", `{"value":`+value+`}`); string(r.GetResult()) != want {
		t.Errorf("got  %s\nwant %s", r.GetResult(), want)
	}
	// A transport with lines must not be misled by white space.
	if r := session.Tool("echo", "{\n  \"value\":\r\n 1\n}"); string(rawjson.Get(r.GetResult(), "structuredContent")) != "1" {
		t.Errorf("parameters with line ends: %v", r)
	}
}

func rpcErrors(t *testing.T, s Suite) {
	_, session := s.open(t)
	e := session.Tool("fail", `{}`).GetRpcError()
	if e.GetCode() != -32099 || e.GetMessage() != "as you wish" || string(e.GetData()) != `{"n":9007199254740993}` {
		t.Errorf("got %v", e)
	}
	_, ch := session.Go("no/such/method", "")
	if e := session.Await(ch).GetRpcError(); e.GetCode() != -32601 {
		t.Errorf("got %v", e)
	}
}

// order checks that what was sent before a result arrives before it.
func order(t *testing.T, s Suite) {
	_, session := s.open(t)
	const count = 200
	for _, tool := range []string{"notify", "progress"} {
		id, ch := session.Go("tools/call", fmt.Sprintf(
			`{"name":%q,"arguments":{"count":%d},"_meta":{"progressToken":"t"}}`, tool, count))
		session.Await(ch)
		next := 0
		for f := range session.frames {
			if r := f.GetResponse(); r != nil {
				if r.Id == id {
					break
				}
				continue
			}
			n := f.GetNotification()
			at := rawjson.Get(n.GetParams(), map[string]string{"notify": "data", "progress": "progress"}[tool])
			if string(at) != strconv.Itoa(next) {
				t.Fatalf("%s: notification %s in place %d", tool, at, next)
			}
			next++
		}
		if next != count {
			t.Errorf("%s: %d of %d notifications came before the result", tool, next, count)
		}
	}
}

func concurrent(t *testing.T, s Suite) {
	_, session := s.open(t)
	var all []<-chan *transportpb.Response
	for i := range 64 {
		_, ch := session.GoTool("echo", fmt.Sprintf(`{"value":%d}`, i))
		all = append(all, ch)
	}
	for i, ch := range all {
		r := session.Await(ch)
		if got := string(rawjson.Get(r.GetResult(), "structuredContent")); got != strconv.Itoa(i) {
			t.Errorf("call %d got %q: %v", i, got, r)
		}
	}
}

func cancel(t *testing.T, s Suite) {
	_, session := s.open(t)
	id, ch := session.GoTool("sleep", `{"ms":60000}`)
	session.Tool("echo", `{"value":1}`) // the server has the first one by now
	session.Send(&transportpb.HostFrame{Frame: &transportpb.HostFrame_Cancel{Cancel: &transportpb.Cancel{Id: id, Reason: "test"}}})
	if r := session.Tool("cancelled", `{"atLeast":1}`); !strings.Contains(string(r.GetResult()), `"text":"1"`) {
		t.Errorf("got %v", r)
	}
	select {
	case r := <-ch:
		t.Errorf("a cancelled request got a response: %v", r)
	default:
	}
}

func ask(t *testing.T, s Suite) {
	_, session := s.open(t)
	if session.Init.ProtocolVersion >= "2026-07-28" {
		t.Skip("servers of this protocol version send no requests")
	}
	for _, refuse := range []bool{false, true} {
		_, ch := session.GoTool("ask", `{}`)
		r := session.Unasked().GetRequest()
		if r.GetMethod() != "elicitation/create" || rawjson.Text(r.GetParams(), "message") != "really?" {
			t.Fatalf("got %v", r)
		}
		a := &transportpb.Answer{Id: r.Id, Outcome: &transportpb.Answer_Result{Result: []byte(`{"action":"accept","content":{"n":9007199254740993}}`)}}
		want := `"n":9007199254740993`
		if refuse {
			a.Outcome = &transportpb.Answer_RpcError{RpcError: &transportpb.RpcError{Code: -1, Message: "no thanks"}}
			want = "refused: no thanks"
		}
		session.Send(&transportpb.HostFrame{Frame: &transportpb.HostFrame_Answer{Answer: a}})
		if got := string(session.Await(ch).GetResult()); !strings.Contains(got, want) {
			t.Errorf("the server got %s, want %s in it", got, want)
		}
	}
}

// ping checks that a server's ping is answered without the host.
func ping(t *testing.T, s Suite) {
	_, session := s.open(t)
	if session.Init.ProtocolVersion >= "2026-07-28" {
		t.Skip("servers of this protocol version send no requests")
	}
	if r := session.Tool("ping", `{}`); !strings.Contains(string(r.GetResult()), "pong") {
		t.Errorf("got %v", r)
	}
}

func large(t *testing.T, s Suite) {
	_, session := s.open(t)
	for _, n := range []int{64 << 10, 1 << 20, 17 << 20} {
		if r := session.Tool("big", fmt.Sprintf(`{"bytes":%d}`, n)); len(r.GetResult()) < n {
			t.Errorf("%d bytes: got %d, %v", n, len(r.GetResult()), r.GetTransportError())
		}
	}
	text, _ := json.Marshal(strings.Repeat("y", 5<<20)) // a string always encodes
	if r := session.Tool("echo", `{"value":`+string(text)+`}`); len(r.GetResult()) < len(text) {
		t.Errorf("5 MiB of parameters: got back %d, %v", len(r.GetResult()), r.GetTransportError())
	}
}

func oversize(t *testing.T, s Suite) {
	p := s.start(t)
	session := s.session(t, p, &transportpb.OpenSession{MaxMessageBytes: 100_000})
	_, slow := session.GoTool("sleep", `{"ms":300}`)
	for _, n := range []int{200_000, 3_000_000} {
		r := session.Tool("big", fmt.Sprintf(`{"bytes":%d}`, n))
		e := r.GetTransportError()
		if e.GetReason() != transportpb.TransportError_REASON_OVERSIZE || e.GetMessage() == "" || e.GetDelivered() == transportpb.TransportError_DELIVERED_NO {
			t.Fatalf("%d bytes: got error %v, %d bytes of result", n, e, len(r.GetResult()))
		}
	}
	if r := session.Tool("big", `{"bytes":50000}`); len(r.GetResult()) < 50_000 {
		t.Errorf("the session did not live on: %v", r)
	}
	if r := session.Await(slow); r.GetResult() == nil {
		t.Errorf("another call was hit: %v", r)
	}
}
