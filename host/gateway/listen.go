package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// Limits of one subscriptions/listen.
const (
	maxSubscribed    = 1000             // resources
	subscribeTimeout = 10 * time.Second // for all of them; the rest is not agreed to
	subscribeAtOnce  = 8
)

// A listener is the [relay.Client] of a subscriptions/listen: it hears what it
// asked for and nothing else (SEP-2575). The endpoint learns of the resources
// by resources/subscribe calls that the listener makes.
type listener struct {
	*statelessClient
	id      json.RawMessage // of the request, which tags every notification
	wants   interests       // what it is told of
	granted []string        // those of wants.uris that the endpoint has subscribed to
	stream  notifications
}

// notifications is where a listener's notifications go.
type notifications interface{ add(*jsonrpc.Message) bool }

var _ relay.Client = (*listener)(nil)

// interests is what a listener asked for, as far as the endpoint has it.
type interests struct {
	tools, prompts, resources bool
	uris                      []string
}

// idle reports whether there is nothing that the listener could hear.
func (l *listener) idle() bool {
	return !l.wants.tools && !l.wants.prompts && !l.wants.resources && len(l.granted) == 0
}

// Notify sends a notification if the listener wants it.
func (l *listener) Notify(method string, params json.RawMessage) {
	switch method {
	case "notifications/tools/list_changed":
		if !l.wants.tools {
			return
		}
	case "notifications/prompts/list_changed":
		if !l.wants.prompts {
			return
		}
	case "notifications/resources/list_changed":
		if !l.wants.resources {
			return
		}
	case "notifications/resources/updated":
		if !l.wants.covers(rawjson.Text(params, "uri")) {
			return
		}
	default:
		return
	}
	tagged, err := rawjson.Set(params, l.id, "_meta", metaSubscriptionID)
	if err != nil {
		return // params that are no object have no meaning here
	}
	l.stream.add(&jsonrpc.Message{Method: method, Params: tagged})
}

// covers reports whether uri is subscribed to, itself or as part of something
// that is (MCP: the update may be of a sub-resource).
func (i *interests) covers(uri string) bool {
	for _, u := range i.uris {
		if uri == u || strings.HasPrefix(uri, strings.TrimSuffix(u, "/")+"/") {
			return true
		}
	}
	return false
}

// readInterests reads the params of subscriptions/listen and leaves what the
// endpoint's capabilities can serve.
func readInterests(params, caps json.RawMessage) (interests, *jsonrpc.Error) {
	asked := rawjson.Get(params, "notifications")
	if !isObject(asked) {
		return interests{}, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "subscriptions/listen needs the params member notifications")
	}
	both := func(ask, feature, able string) bool {
		return string(rawjson.Get(asked, ask)) == "true" && string(rawjson.Get(caps, feature, able)) == "true"
	}
	i := interests{
		tools:     both("toolsListChanged", "tools", "listChanged"),
		prompts:   both("promptsListChanged", "prompts", "listChanged"),
		resources: both("resourcesListChanged", "resources", "listChanged"),
	}
	if string(rawjson.Get(caps, "resources", "subscribe")) != "true" {
		return i, nil
	}
	if list := rawjson.Get(asked, "resourceSubscriptions"); list != nil {
		uris, err := rawjson.Elements(list)
		if err != nil || len(uris) > maxSubscribed {
			return i, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "resourceSubscriptions must be a list of at most %d URIs", maxSubscribed)
		}
		for _, u := range uris {
			i.uris = append(i.uris, rawjson.Unquote(u))
		}
	}
	return i, nil
}

// acknowledged is the first message on a listener's stream.
func (l *listener) acknowledged() *jsonrpc.Message {
	out := []byte(`{"notifications":{`)
	add := func(name string, value []byte) {
		if out[len(out)-1] != '{' {
			out = append(out, ',')
		}
		out = append(append(append(append(out, '"'), name...), `":`...), value...)
	}
	if l.wants.tools {
		add("toolsListChanged", []byte("true"))
	}
	if l.wants.prompts {
		add("promptsListChanged", []byte("true"))
	}
	if l.wants.resources {
		add("resourcesListChanged", []byte("true"))
	}
	if len(l.granted) > 0 {
		list := []byte{'['}
		for i, u := range l.granted {
			if i > 0 {
				list = append(list, ',')
			}
			list = append(list, rawjson.Quote(u)...)
		}
		add("resourceSubscriptions", append(list, ']'))
	}
	out = append(out, `},"_meta":{"`+metaSubscriptionID+`":`...)
	out = append(append(out, l.id...), "}}"...)
	return &jsonrpc.Message{Method: "notifications/subscriptions/acknowledged", Params: out}
}

// ended is the result that a listener gets when the host ends its stream.
func (l *listener) ended(endpoint relay.Endpoint) *jsonrpc.Message {
	out := append([]byte(`{"resultType":"complete","_meta":{"`+metaSubscriptionID+`":`), l.id...)
	out = append(out, `,"`+metaServerInfo+`":`...)
	out = append(append(out, orEmpty(endpoint.Describe().ServerInfo)...), "}}"...)
	return &jsonrpc.Message{ID: l.id, Result: out}
}

// subscribe has the endpoint subscribe to the listener's resources. Those that
// fail are not granted.
func (l *listener) subscribe(ctx context.Context, g *Gateway, endpoint relay.Endpoint) {
	if len(l.wants.uris) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, subscribeTimeout)
	defer cancel()
	done := make([]bool, len(l.wants.uris))
	slots := make(chan struct{}, subscribeAtOnce)
	var wg sync.WaitGroup
	for i, uri := range l.wants.uris {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			x := &exchange{g: g, conn: ctx}
			c := x.newCall(ctx, l.id)
			defer c.cancel(nil)
			params := append(append([]byte(`{"uri":`), rawjson.Quote(uri)...), '}')
			reply, _ := g.handle(c.ctx, endpoint, c, relay.Call{Client: l, Stream: c, Method: "resources/subscribe", Params: params})
			done[i] = reply.Error == nil && ctx.Err() == nil
		})
	}
	wg.Wait()
	for i, uri := range l.wants.uris {
		if done[i] {
			l.granted = append(l.granted, uri)
		}
	}
}

// listen serves subscriptions/listen over HTTP: the response is the stream. It
// ends with the client's connection or the host, or at once if there is
// nothing to listen for.
func (g *Gateway) listen(w http.ResponseWriter, r *http.Request, endpoint relay.Endpoint, client *statelessClient, m *jsonrpc.Message, a accept) {
	wants, e := readInterests(m.Params, endpoint.Describe().Capabilities)
	if e != nil {
		writeError(w, modernStatus(e), m.ID, e)
		return
	}
	if !a.stream {
		writeError(w, http.StatusNotAcceptable, m.ID, jsonrpc.Errorf(codeServer, "subscriptions/listen answers with text/event-stream, which Accept does not list"))
		return
	}
	st := &stream{lossy: true}
	held := &holdBack{to: st}
	l := &listener{statelessClient: client, id: m.ID, wants: wants, stream: held}
	endpoint.Join(l)
	defer endpoint.Leave(l)
	l.subscribe(r.Context(), g, endpoint)
	st.add(l.acknowledged())
	held.release()
	finish := func() {
		st.add(l.ended(endpoint))
		st.close()
	}
	if l.idle() {
		finish()
	} else {
		defer context.AfterFunc(g.serving, finish)()
	}
	if err := st.pump(r.Context(), newEventWriter(w), nil, -1, g.cfg.KeepAlive); err != nil {
		g.log.Debug("a subscription ended", "reason", err)
	}
}

// holdBack keeps a listener's notifications until its acknowledgement, which
// has to come first, is on its way.
type holdBack struct {
	to   notifications
	mu   sync.Mutex
	kept []*jsonrpc.Message
	open bool
}

func (h *holdBack) add(m *jsonrpc.Message) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open {
		return h.to.add(m)
	}
	if len(h.kept) >= maxQueued {
		return false
	}
	h.kept = append(h.kept, m)
	return true
}

func (h *holdBack) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = true
	for _, m := range h.kept {
		h.to.add(m)
	}
	h.kept = nil
}
