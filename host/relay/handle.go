package relay

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// Handle implements Endpoint.
func (e *endpoint) Handle(ctx context.Context, c Call) session.Reply {
	if c.Params != nil && c.Params[0] != '{' {
		return failed(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s: params must be an object", c.Method))
	}
	switch c.Method {
	case "tools/call":
		return e.named(ctx, c, catalog.Tools)
	case "prompts/get":
		return e.named(ctx, c, catalog.Prompts)
	case "tools/list":
		return e.list(ctx, c, catalog.Tools)
	case "prompts/list":
		return e.list(ctx, c, catalog.Prompts)
	case "resources/list":
		return e.list(ctx, c, catalog.Resources)
	case "resources/templates/list":
		return e.list(ctx, c, catalog.Templates)
	case "resources/read":
		return e.located(ctx, c)
	case "resources/subscribe":
		return e.subscribe(ctx, c)
	case "resources/unsubscribe":
		return e.unsubscribe(ctx, c)
	case "completion/complete":
		return e.complete(ctx, c)
	case "logging/setLevel":
		return e.setLevel(ctx, c)
	}
	return e.other(ctx, c)
}

func (e *endpoint) list(ctx context.Context, c Call, kind catalog.Kind) session.Reply {
	if e.r.first.Err() == nil {
		wait, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(e.r.first, cancel)
		e.cat.Settle(wait)
		stop()
		cancel()
	}
	page, err := e.cat.View().List(kind, rawjson.Get(c.Params, "cursor"), c.Client.ProtocolVersion())
	if err != nil {
		return failed(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s: %v; list again from the start", c.Method, err))
	}
	return session.Reply{Result: page}
}

// named handles the requests that go by the name of a tool or prompt.
func (e *endpoint) named(ctx context.Context, c Call, kind catalog.Kind) session.Reply {
	var m [2]json.RawMessage
	if err := rawjson.Members(c.Params, m[:], "name", "_meta"); err != nil && c.Params != nil {
		return failed(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s: %v", c.Method, err))
	}
	outer := rawjson.Unquote(m[0])
	if outer == "" {
		return failed(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s: params have no name", c.Method))
	}
	view := e.cat.View()
	find, what := view.Tool, "tool"
	if kind == catalog.Prompts {
		find, what = view.Prompt, "prompt"
	}
	target, ok := find(outer)
	if !ok {
		return failed(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "Unknown %s: %s", what, cut(outer, 200)))
	}
	if target.Name != outer {
		params, err := rawjson.Set(c.Params, rawjson.Quote(target.Name), "name")
		if err != nil {
			return failed(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s: %v", c.Method, err))
		}
		c.Params = params
	}
	return e.forward(ctx, c, target.Server, m[1], kind == catalog.Prompts || target.Idempotent)
}

// located handles resources/read.
func (e *endpoint) located(ctx context.Context, c Call) session.Reply {
	target, bad := e.resource(c)
	if bad != nil {
		return failed(bad)
	}
	return e.forward(ctx, c, target.Server, rawjson.Get(c.Params, "_meta"), true)
}

func (e *endpoint) resource(c Call) (catalog.Target, *jsonrpc.Error) {
	uri := rawjson.Text(c.Params, "uri")
	if uri == "" {
		return catalog.Target{}, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s: params have no uri", c.Method)
	}
	target, ok := e.cat.View().Resource(uri)
	if !ok {
		return catalog.Target{}, noResource(c.Client, uri)
	}
	return target, nil
}

// complete handles completion/complete, whose reference is a prompt's name or
// a resource's URI or template (MCP, server/utilities/completion).
func (e *endpoint) complete(ctx context.Context, c Call) session.Reply {
	ref := rawjson.Get(c.Params, "ref")
	meta := rawjson.Get(c.Params, "_meta")
	view := e.cat.View()
	switch kind := rawjson.Text(ref, "type"); kind {
	case "ref/prompt":
		outer := rawjson.Text(ref, "name")
		target, ok := view.Prompt(outer)
		if !ok {
			return failed(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "Unknown prompt: %s", cut(outer, 200)))
		}
		if target.Name != outer {
			params, err := rawjson.Set(c.Params, rawjson.Quote(target.Name), "ref", "name")
			if err != nil {
				return failed(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s: %v", c.Method, err))
			}
			c.Params = params
		}
		return e.forward(ctx, c, target.Server, meta, true)
	case "ref/resource":
		uri := rawjson.Text(ref, "uri")
		target, ok := view.Template(uri)
		if !ok {
			return failed(noResource(c.Client, uri))
		}
		return e.forward(ctx, c, target.Server, meta, true)
	default:
		if e.name != "" { // the server may know more kinds than we do
			return e.forward(ctx, c, e.name, meta, true)
		}
		return failed(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s: ref is neither a ref/prompt nor a ref/resource", c.Method))
	}
}

// other handles methods that the host does not know. A server alone gets them
// as they are; in the aggregate a name or a URI has to decide.
func (e *endpoint) other(ctx context.Context, c Call) session.Reply {
	meta := rawjson.Get(c.Params, "_meta")
	if e.name != "" {
		return e.forward(ctx, c, e.name, meta, false)
	}
	view := e.cat.View()
	if outer := rawjson.Text(c.Params, "name"); outer != "" {
		target, ok := view.Tool(outer)
		if prompt, found := view.Prompt(outer); found && (!ok || strings.HasPrefix(c.Method, "prompts/")) {
			target, ok = prompt, true
		}
		if ok {
			if params, err := rawjson.Set(c.Params, rawjson.Quote(target.Name), "name"); err == nil {
				c.Params = params
				return e.forward(ctx, c, target.Server, meta, false)
			}
		}
	} else if uri := rawjson.Text(c.Params, "uri"); uri != "" {
		if target, ok := view.Resource(uri); ok {
			return e.forward(ctx, c, target.Server, meta, false)
		}
	}
	return failed(jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "Method not found: %s", cut(c.Method, 200)))
}

// forward sends a request to a server and returns its answer as it came. Meta
// is the _meta of the params, nil if they have none.
func (e *endpoint) forward(ctx context.Context, c Call, server string, meta json.RawMessage, idempotent bool) session.Reply {
	srv, ok := e.r.cfg.Lookup(server, c.Client)
	if !ok {
		return failed(jsonrpc.Errorf(codeUnavailable, "server %q is no longer configured", server))
	}
	in := &call{link: e.r.link(server), client: c.Client, stream: c.Stream, ctx: ctx}
	if meta != nil && meta[0] == '{' {
		var m [2]json.RawMessage
		if err := rawjson.Members(meta, m[:], "progressToken", metaLogLevel); err != nil {
			return failed(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s: %v", c.Method, err))
		}
		in.level = levels[rawjson.Unquote(m[1])]
		if m[0] != nil && string(m[0]) != "null" {
			in.ours, in.theirs = e.r.tokens.Add(1), m[0]
			params, err := rawjson.Set(c.Params, number(in.ours), "_meta", "progressToken")
			if err != nil {
				return failed(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s: %v", c.Method, err))
			}
			c.Params = params
		}
	}
	in.enter()
	defer in.leave()
	reply, err := srv.Call(ctx, session.Request{
		Method: c.Method, Params: c.Params, Headers: c.Headers, Started: in.started,
	}, supervisor.CallOptions{Idempotent: idempotent})
	if err != nil {
		return e.r.unanswered(ctx, c, server, err)
	}
	return reply
}
