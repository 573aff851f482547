package relay

import (
	"encoding/json"

	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// params is a request's params on their way to a server: scanned once, and
// copied once if something in them has to change.
type params struct {
	raw    json.RawMessage
	member string          // the name of the member that decides the server
	key    rawjson.Span    // that member's value
	text   string          // that value as text; "" if it is absent or no string
	as     json.RawMessage // what takes its place; nil: nothing
	meta   rawjson.Span    // the value of _meta
	token  rawjson.Span    // in raw: the value of _meta.progressToken
	level  level           // _meta's log level
	schema json.RawMessage // of the tool that is called, as far as it is known
}

// readParams finds the member key and what the relay needs of _meta.
func readParams(c Call, key string) (params, *jsonrpc.Error) {
	p := params{raw: c.Params, member: key}
	if c.Params == nil {
		return p, nil
	}
	bad := func(err error) (params, *jsonrpc.Error) {
		return params{}, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s: %v", c.Method, err)
	}
	var at [2]rawjson.Span
	if err := rawjson.Find(c.Params, at[:], "_meta", key); err != nil {
		return bad(err)
	}
	p.meta, p.key = at[0], at[1]
	p.text = rawjson.Unquote(p.key.Of(p.raw))
	if err := p.findToken(); err != nil {
		return bad(err)
	}
	return p, nil
}

// findToken reads what the relay needs of _meta.
func (p *params) findToken() error {
	meta := p.meta.Of(p.raw)
	if len(meta) == 0 || meta[0] != '{' {
		return nil
	}
	var at [2]rawjson.Span
	if err := rawjson.Find(meta, at[:], "progressToken", metaLogLevel); err != nil {
		return err
	}
	if lv := levels[rawjson.Unquote(at[1].Of(meta))]; lv != 0 {
		p.level = lv
	}
	if token := at[0]; token.To > 0 && string(token.Of(meta)) != "null" {
		p.token = rawjson.Span{From: p.meta.From + token.From, To: p.meta.From + token.To}
	}
	return nil
}

// rename puts the server's own name in the place of the client's.
func (p *params) rename(to string) {
	if to != p.text {
		p.as = rawjson.Quote(to)
	}
}

// encode returns the params with p.as, and token in the place of the client's
// progress token, if it has one.
func (p *params) encode(token json.RawMessage) json.RawMessage {
	first, second := p.key, p.token
	with, then := p.as, token
	if first.From > second.From {
		first, second, with, then = second, first, then, with
	}
	if (with == nil || first.To == 0) && (then == nil || second.To == 0) {
		return p.raw
	}
	out := make([]byte, 0, len(p.raw)+len(with)+len(then))
	from := 0
	if with != nil && first.To > 0 {
		out = append(append(out, p.raw[:first.From]...), with...)
		from = first.To
	}
	if then != nil && second.To > 0 {
		out = append(append(out, p.raw[from:second.From]...), then...)
		from = second.To
	}
	return append(out, p.raw[from:]...)
}
