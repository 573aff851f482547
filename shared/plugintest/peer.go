package plugintest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// Precise is the result of the tool "precise": what a relay that decodes it
// would lose.
const Precise = `{"zeta":1,"content":[],"structuredContent":{"id":9007199254740993,"ratio":1.10,"big":123456789012345678901234567890},"x-unknown":{"b":2,"a":1}}`

// Era says which handshakes a Peer knows.
type Era int

const (
	BothEras   Era = iota
	LegacyOnly     // initialize
	ModernOnly     // server/discover, protocol 2026-07-28
)

// A Peer is a scripted MCP server: the logic without a transport. Its tools
// commit what a transport must bear:
//
//	echo      {value}   returns value as structuredContent
//	precise             returns [Precise]
//	big       {bytes}   returns a text of that many bytes
//	sleep     {ms}      answers late; can be cancelled
//	cancelled {atLeast} returns how many requests were cancelled, once they are that many
//	notify    {count}   sends so many log notifications, numbered from 0, before its result
//	progress  {count}   the same with progress notifications, if _meta.progressToken is there
//	ask                 sends elicitation/create and returns the answer to it
//	ping                sends ping and returns once it is answered
//	fail                is answered by a JSON-RPC error with data
//	stderr    {lines}   writes so many lines to stderr
//	garbage             calls Garbage
//	crash               calls Crash
//	pid                 returns the process id
//	meta                returns the _meta of its own request
//	listChanged         sends notifications/tools/list_changed
//
// A Peer may be used from several goroutines. The zero value works.
type Peer struct {
	Era Era

	// Crash is the tool "crash". It breaks the connections of the Peer's
	// clients, as the death of a server does. Nil: ServeLines closes its streams
	// in a process that starts plugins, as tests do; any other process exits with
	// status 3.
	Crash func()

	// Garbage makes the transport carry something that is no message. Nil:
	// ServeLines writes some.
	Garbage func()

	// SilentDiscover leaves server/discover unanswered, as some old servers
	// do with what they don't know.
	SilentDiscover bool

	// SilentInitialize does the same with initialize.
	SilentInitialize bool

	mu        sync.Mutex
	nextAsk   int
	asked     map[string]chan jsonrpc.Message
	running   map[string]context.CancelFunc
	cancelled int
	more      chan struct{} // closed at the next cancellation, if anybody waits for it
	listener  func([]byte)  // of subscriptions/listen
}

// Handle takes one message. A request's answer, and what belongs to it, goes
// to send before Handle returns. Send may be called from several goroutines if
// Handle is; each call is one message.
func (p *Peer) Handle(ctx context.Context, text []byte, send func([]byte)) {
	m, err := jsonrpc.Parse(text)
	if err != nil {
		send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"%s"}}`, "parse error"))
		return
	}
	switch {
	case m.IsResponse():
		p.mu.Lock()
		answered := p.asked[string(m.ID)]
		delete(p.asked, string(m.ID))
		p.mu.Unlock()
		if answered != nil {
			answered <- m
		}
	case m.IsNotification():
		if m.Method == "notifications/cancelled" {
			p.cancel(string(rawjson.Get(m.Params, "requestId")))
		}
	default:
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		id := string(m.ID)
		p.mu.Lock()
		if p.running == nil {
			p.running = map[string]context.CancelFunc{}
		}
		p.running[id] = cancel
		p.mu.Unlock()
		p.request(ctx, m, send)
		p.mu.Lock()
		delete(p.running, id)
		p.mu.Unlock()
	}
}

func (p *Peer) cancel(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if stop := p.running[id]; stop != nil {
		p.cancelled++
		if p.more != nil {
			close(p.more)
			p.more = nil
		}
		stop()
	}
}

// awaitCancelled waits until so many requests were cancelled.
func (p *Peer) awaitCancelled(ctx context.Context, atLeast int) (count int, ok bool) {
	for {
		p.mu.Lock()
		count = p.cancelled
		if p.more == nil {
			p.more = make(chan struct{})
		}
		more := p.more
		p.mu.Unlock()
		if count >= atLeast {
			return count, true
		}
		select {
		case <-more:
		case <-ctx.Done():
			return count, false
		}
	}
}

func (p *Peer) request(ctx context.Context, m jsonrpc.Message, send func([]byte)) {
	answer := jsonrpc.Message{ID: m.ID}
	modern := rawjson.Text(m.Params, "_meta", "io.modelcontextprotocol/protocolVersion") == "2026-07-28"
	capabilities := `{"tools":{"listChanged":true}}`
	switch {
	case m.Method == "server/discover" && p.SilentDiscover, m.Method == "initialize" && p.SilentInitialize:
		return
	case m.Method == "server/discover" && p.Era != LegacyOnly:
		answer.Result = json.RawMessage(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":` + capabilities +
			`,"instructions":"be kind","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"peer","version":"1"}}}`)
	case m.Method == "initialize" && p.Era != ModernOnly:
		version := rawjson.Text(m.Params, "protocolVersion")
		answer.Result = json.RawMessage(`{"protocolVersion":` + string(rawjson.Quote(version)) + `,"capabilities":` + capabilities +
			`,"serverInfo":{"name":"peer","version":"1"},"instructions":"be kind","x-extra":9007199254740993}`)
	case p.Era == ModernOnly && !modern:
		answer.Error = jsonrpc.Errorf(-32602, "a request without a protocol version")
	case m.Method == "ping":
		answer.Result = json.RawMessage(`{}`)
	case m.Method == "subscriptions/listen":
		p.mu.Lock()
		p.listener = send
		p.mu.Unlock()
		send([]byte(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true}}}`))
		<-ctx.Done()
		return
	case m.Method == "tools/list":
		answer.Result = json.RawMessage(`{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`)
	case m.Method == "tools/call":
		var silent bool
		if answer.Result, answer.Error, silent = p.call(ctx, m, send); silent {
			return
		}
	default:
		answer.Error = jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "no method %q", m.Method)
	}
	send(answer.Append(nil))
}

func (p *Peer) call(ctx context.Context, m jsonrpc.Message, send func([]byte)) (result json.RawMessage, fault *jsonrpc.Error, silent bool) {
	args := rawjson.Get(m.Params, "arguments")
	number := func(name string) int {
		n, _ := strconv.Atoi(string(rawjson.Get(args, name)))
		return n
	}
	text := func(s string) json.RawMessage {
		return slices.Concat([]byte(`{"content":[{"type":"text","text":`), rawjson.Quote(s), []byte(`}]}`))
	}
	switch tool := rawjson.Text(m.Params, "name"); tool {
	case "echo":
		value := rawjson.Get(args, "value")
		if value == nil {
			value = json.RawMessage("null")
		}
		return slices.Concat([]byte(`{"content":[],"structuredContent":`), value, []byte("}")), nil, false
	case "precise":
		return json.RawMessage(Precise), nil, false
	case "big":
		return text(strings.Repeat("x", number("bytes"))), nil, false
	case "sleep":
		select {
		case <-ctx.Done():
			return nil, nil, true
		case <-time.After(time.Duration(number("ms")) * time.Millisecond):
			return text("slept"), nil, false
		}
	case "cancelled":
		count, ok := p.awaitCancelled(ctx, number("atLeast"))
		return text(strconv.Itoa(count)), nil, !ok
	case "notify":
		for i := range number("count") {
			send(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%d}}`, i))
		}
		return text("notified"), nil, false
	case "progress":
		if token := rawjson.Get(m.Params, "_meta", "progressToken"); token != nil {
			for i := range number("count") {
				send(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, i))
			}
		}
		return text("done"), nil, false
	case "ask":
		reply, ok := p.ask(ctx, send, "elicitation/create", `{"message":"really?","requestedSchema":{"type":"object","properties":{}}}`)
		if !ok {
			return nil, nil, true
		}
		if reply.Error != nil {
			return text("refused: " + reply.Error.Message), nil, false
		}
		return slices.Concat([]byte(`{"content":[],"structuredContent":`), reply.Result, []byte("}")), nil, false
	case "ping":
		_, ok := p.ask(ctx, send, "ping", "")
		return text("pong"), nil, !ok
	case "fail":
		return nil, &jsonrpc.Error{Code: -32099, Message: "as you wish", Data: json.RawMessage(`{"n":9007199254740993}`)}, false
	case "stderr":
		for i := range number("lines") {
			fmt.Fprintf(os.Stderr, "line %d %s\n", i, strings.Repeat("e", 100))
		}
		return text("written"), nil, false
	case "garbage":
		if throw := p.Garbage; throw != nil {
			throw()
		} else if l := linesOf(ctx); l != nil {
			l.garbage()
		}
		return text("thrown"), nil, false
	case "crash":
		switch l := linesOf(ctx); {
		case p.Crash != nil:
			p.Crash()
		case !drives.Load():
			os.Exit(3)
		case l != nil:
			l.crash()
		default:
			return nil, jsonrpc.Errorf(jsonrpc.CodeInternalError, "Peer.Crash is nil, and the process of this Peer is that of the tests, so that it can't exit: set Crash to what breaks the connections of the Peer's clients, or Suite.NoCrash"), false
		}
		return nil, nil, true
	case "pid":
		return text(strconv.Itoa(os.Getpid())), nil, false
	case "meta":
		meta := rawjson.Get(m.Params, "_meta")
		if meta == nil {
			meta = json.RawMessage("null")
		}
		return slices.Concat([]byte(`{"content":[],"structuredContent":`), meta, []byte("}")), nil, false
	case "listChanged":
		p.mu.Lock()
		to := p.listener
		p.mu.Unlock()
		if to == nil {
			to = send
		}
		to([]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`))
		return text("sent"), nil, false
	default:
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "no tool %q", tool), false
	}
}

// ask sends a request to the client and waits for its answer.
func (p *Peer) ask(ctx context.Context, send func([]byte), method, params string) (jsonrpc.Message, bool) {
	answered := make(chan jsonrpc.Message, 1)
	p.mu.Lock()
	p.nextAsk++
	id := rawjson.Quote("ask-" + strconv.Itoa(p.nextAsk))
	if p.asked == nil {
		p.asked = map[string]chan jsonrpc.Message{}
	}
	p.asked[string(id)] = answered
	p.mu.Unlock()
	m := jsonrpc.Message{ID: id, Method: method}
	if params != "" {
		m.Params = json.RawMessage(params)
	}
	send(m.Append(nil))
	select {
	case reply := <-answered:
		return reply, true
	case <-ctx.Done():
		return jsonrpc.Message{}, false
	}
}

// ServeLines speaks MCP's stdio framing until r ends. Requests run at the same
// time. It may be called for several connections.
func (p *Peer) ServeLines(r io.Reader, w io.Writer) error {
	l := &lines{r: r, w: w}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), linesKey{}, l))
	var requests sync.WaitGroup
	defer requests.Wait()
	defer cancel()
	in := bufio.NewReaderSize(r, 1<<16)
	for {
		text, err := in.ReadBytes('\n')
		if len(strings.TrimSpace(string(text))) > 0 {
			if m, bad := jsonrpc.Parse(text); bad == nil && m.IsRequest() && m.Method != "initialize" {
				requests.Go(func() { p.Handle(ctx, text, l.send) })
			} else {
				p.Handle(ctx, text, l.send)
			}
		}
		if err == io.EOF || err != nil && l.crashed.Load() {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// lines is a connection of ServeLines.
type lines struct {
	r       io.Reader
	mu      sync.Mutex // held during a write
	w       io.Writer
	crashed atomic.Bool
}

type linesKey struct{}

func linesOf(ctx context.Context) *lines {
	l, _ := ctx.Value(linesKey{}).(*lines)
	return l
}

func (l *lines) send(text []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.w.Write(append(slices.Clip(text), '\n')) // a client that is gone ends r too
}

func (l *lines) garbage() {
	for _, text := range []string{"listening on port 3000 {", "", `{"level":"info"}`} {
		l.send([]byte(text))
	}
}

// crash closes both streams, as the system does with those of a process.
func (l *lines) crash() {
	l.crashed.Store(true)
	for _, stream := range []any{l.w, l.r} {
		if c, ok := stream.(io.Closer); ok {
			_ = c.Close() // it may be the same as the other
		}
	}
}
