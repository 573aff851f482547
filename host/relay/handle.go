package relay

import (
	"context"
	"strings"

	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/session"
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
	view := e.cat.View()
	cursor := rawjson.Get(c.Params, "cursor")
	page, err := view.List(kind, cursor, c.Client.ProtocolVersion())
	if err != nil {
		return failed(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s: %v; list again from the start", c.Method, err))
	}
	if cursor == nil {
		e.given(c.Client, kind, view.Sum(kind))
	}
	return session.Reply{Result: page}
}

// named handles the requests that go by the name of a tool or prompt.
func (e *endpoint) named(ctx context.Context, c Call, kind catalog.Kind) session.Reply {
	p, bad := readParams(c, "name")
	switch {
	case bad != nil:
		return failed(bad)
	case p.text == "":
		return failed(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s: params have no name", c.Method))
	}
	view := e.cat.View()
	find, what := view.Tool, "tool"
	if kind == catalog.Prompts {
		find, what = view.Prompt, "prompt"
	}
	target, ok := find(p.text)
	if !ok {
		return failed(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "Unknown %s: %s", what, cut(p.text, 200)))
	}
	p.rename(target.Name)
	if kind == catalog.Tools {
		p.schema = view.InputSchema(p.text)
	}
	return e.forward(ctx, c, p, target.Server, kind == catalog.Prompts || target.Idempotent)
}

// located handles resources/read.
func (e *endpoint) located(ctx context.Context, c Call) session.Reply {
	p, server, bad := e.resource(c)
	if bad != nil {
		return failed(bad)
	}
	return e.forward(ctx, c, p, server, true)
}

// resource finds the server of the URI in a request's params.
func (e *endpoint) resource(c Call) (p params, server string, bad *jsonrpc.Error) {
	if p, bad = readParams(c, "uri"); bad != nil {
		return p, "", bad
	}
	if p.text == "" {
		return p, "", jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s: params have no uri", c.Method)
	}
	target, ok := e.cat.View().Resource(p.text)
	if !ok {
		return p, "", noResource(c.Client, p.text)
	}
	return p, target.Server, nil
}

// complete handles completion/complete, whose reference is a prompt's name or
// a resource's URI or template (MCP, server/utilities/completion).
func (e *endpoint) complete(ctx context.Context, c Call) session.Reply {
	p, bad := readParams(c, "ref")
	if bad != nil {
		return failed(bad)
	}
	ref := p.key.Of(p.raw)
	view := e.cat.View()
	switch rawjson.Text(ref, "type") {
	case "ref/prompt":
		outer := rawjson.Text(ref, "name")
		target, ok := view.Prompt(outer)
		if !ok {
			return failed(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "Unknown prompt: %s", cut(outer, 200)))
		}
		if target.Name != outer {
			var err error
			if p.as, err = rawjson.Set(ref, rawjson.Quote(target.Name), "name"); err != nil {
				return failed(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s: %v", c.Method, err))
			}
		}
		return e.forward(ctx, c, p, target.Server, true)
	case "ref/resource":
		uri := rawjson.Text(ref, "uri")
		target, ok := view.Template(uri)
		if !ok {
			return failed(noResource(c.Client, uri))
		}
		return e.forward(ctx, c, p, target.Server, true)
	}
	if e.server != "" { // the server may know more kinds than we do
		return e.forward(ctx, c, p, e.server, true)
	}
	return failed(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s: ref is neither a ref/prompt nor a ref/resource", c.Method))
}

// other handles methods that the host does not know. A server alone gets them
// as they are; in the aggregate a name or a URI has to decide.
func (e *endpoint) other(ctx context.Context, c Call) session.Reply {
	p, bad := readParams(c, "name")
	if bad != nil {
		return failed(bad)
	}
	if e.server != "" {
		return e.forward(ctx, c, p, e.server, false)
	}
	if p.text == "" {
		if p, server, bad := e.resource(c); bad == nil {
			return e.forward(ctx, c, p, server, false)
		}
	} else {
		view := e.cat.View()
		target, ok := view.Tool(p.text)
		if prompt, found := view.Prompt(p.text); found && (!ok || strings.HasPrefix(c.Method, "prompts/")) {
			target, ok = prompt, true
		}
		if ok {
			p.rename(target.Name)
			return e.forward(ctx, c, p, target.Server, false)
		}
	}
	return failed(jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "Method not found: %s", cut(c.Method, 200)))
}
