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
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/hermes-host/hermes-host/internal/rawjson"
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

	// NoCrash is set if the Peer's tool "crash" does not end the session.
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

func describe(t *testing.T, s Suite) {
	p := s.start(t)
	about, err := p.Describe(within(t, patience), &transportpb.DescribeRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if about.Kind == "" || about.Version == "" {
		t.Errorf("kind %q and version %q must not be empty", about.Kind, about.Version)
	}
	for _, a := range about.Schema {
		typ, err := ctyjson.UnmarshalType(a.Type)
		if err != nil {
			t.Errorf("attribute %q: its type %s: %v", a.Name, a.Type, err)
			continue
		}
		if a.Doc == "" {
			t.Errorf("attribute %q has no doc", a.Name)
		}
		if len(a.Default) > 0 {
			if _, err := ctyjson.Unmarshal(a.Default, typ); err != nil {
				t.Errorf("attribute %q: its default: %v", a.Name, err)
			}
			if a.Required {
				t.Errorf("attribute %q is required and has a default", a.Name)
			}
		}
	}
}

func validate(t *testing.T, s Suite) {
	p := s.start(t)
	errorsOf := func(block string) []*transportpb.Diagnostic {
		r, err := p.Validate(within(t, patience), &transportpb.ValidateRequest{Config: []byte(block)})
		if err != nil {
			t.Fatal(err)
		}
		var all []*transportpb.Diagnostic
		for _, d := range r.Diagnostics {
			if d.Summary == "" {
				t.Errorf("a diagnostic without a summary: %v", d)
			}
			if d.Severity != transportpb.Diagnostic_SEVERITY_WARNING {
				all = append(all, d)
			}
		}
		return all
	}
	if all := errorsOf(s.Config(t)); len(all) > 0 {
		t.Errorf("a good block is refused: %v", all)
	}
	for name, block := range s.Invalid {
		all := errorsOf(block)
		if len(all) == 0 {
			t.Errorf("accepted %s", block)
		}
		for _, d := range all {
			if len(d.Path) == 0 || d.Path[0].GetAttribute() != name {
				t.Errorf("%s: the path %v does not begin with attribute %q", block, d.Path, name)
			}
		}
	}
}

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

func closing(t *testing.T, s Suite) {
	p, session := s.open(t)
	session.Tool("echo", `{"value":1}`)
	session.CloseSession()
	end := session.AwaitEnd()
	if end.GetClass() != transportpb.SessionEnd_CLASS_CLOSED || end.GetMessage() == "" {
		t.Errorf("got %v", end)
	}
	// The process is good for another one.
	s.session(t, p, &transportpb.OpenSession{}).Tool("echo", `{"value":1}`)
}

func breaking(t *testing.T, s Suite) {
	p, session := s.open(t)
	session.GoTool("sleep", `{"ms":60000}`)
	session.Break()
	session.AwaitEnd()
	if r := s.session(t, p, &transportpb.OpenSession{}).Tool("echo", `{"value":1}`); r.GetResult() == nil {
		t.Errorf("got %v", r)
	}
}

// crash checks that the death of the server ends the session at once, with a
// reason, and that the calls under way are not answered.
func crash(t *testing.T, s Suite) {
	p, session := s.open(t)
	_, slow := session.GoTool("sleep", `{"ms":60000}`)
	began := time.Now()
	session.GoTool("crash", `{}`)
	end := session.AwaitEnd()
	if end.GetMessage() == "" || !end.GetRetryable() {
		t.Errorf("got %v", end)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the end took %v", took)
	}
	select {
	case r := <-slow:
		if r.GetTransportError() == nil {
			t.Errorf("got %v", r)
		}
	default:
	}
	if r := s.session(t, p, &transportpb.OpenSession{}).Tool("echo", `{"value":1}`); r.GetResult() == nil {
		t.Errorf("got %v", r)
	}
}

func unreachable(t *testing.T, s Suite) {
	p := s.start(t)
	session := p.Open(t, &transportpb.OpenSession{Config: []byte(s.Unreachable)})
	if session.Init != nil {
		t.Fatal("a session with nobody")
	}
	end := session.AwaitEnd()
	if end.GetMessage() == "" || end.GetClass() == transportpb.SessionEnd_CLASS_CLOSED {
		t.Errorf("got %v", end)
	}
}

// firstFrame checks that a stream that does not begin with OpenSession is
// refused.
func firstFrame(t *testing.T, s Suite) {
	p := s.start(t)
	stream, err := p.TransportClient.Open(within(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&transportpb.HostFrame{Frame: &transportpb.HostFrame_Close{Close: &transportpb.CloseSession{}}}); err != nil {
		t.Fatal(err)
	}
	if f, err := stream.Recv(); err == nil && f.GetEnd() == nil {
		t.Errorf("got %v", f)
	}
}

func stop(t *testing.T, s Suite) {
	p, session := s.open(t)
	session.GoTool("sleep", `{"ms":60000}`)
	if _, err := p.Stop(within(t, 10*time.Second), &transportpb.StopRequest{}); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if end := session.AwaitEnd(); end.GetClass() != transportpb.SessionEnd_CLASS_CLOSED {
		t.Errorf("got %v", end)
	}
	select {
	case <-p.Exited():
	case <-time.After(5 * time.Second):
		t.Error("the plugin did not exit after Stop")
	}
}

// lifeline checks that the plugin does not outlive the host.
func lifeline(t *testing.T, s Suite) {
	p, session := s.open(t)
	session.GoTool("sleep", `{"ms":60000}`)
	p.CutLifeline()
	select {
	case <-p.Exited():
	case <-time.After(5 * time.Second):
		t.Error("the plugin lives on without its host")
	}
}
