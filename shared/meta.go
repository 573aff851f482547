package shared

import (
	"encoding/json"
	"slices"

	"github.com/hermes-host/hermes-host/internal/rawjson"
)

// meta returns the _meta object of requests in a session of protocol
// 2026-07-28.
func (g greeting) meta(version string) json.RawMessage {
	return slices.Concat(
		[]byte(`{"`+metaVersion+`":`), rawjson.Quote(version),
		[]byte(`,"`+metaClient+`":`), g.client,
		[]byte(`,"`+metaCapabilities+`":`), g.capabilities, []byte("}"))
}

// withMeta returns params with the members of meta in their _meta. What is
// there already stays. Params that are no object come back as they are, for
// the server to refuse.
func withMeta(params, meta json.RawMessage) json.RawMessage {
	old := rawjson.Get(params, "_meta")
	if string(old) == "null" {
		old = nil
	}
	all := meta
	if old != nil {
		all = old
		err := rawjson.Fields(meta, func(key string, val json.RawMessage) bool {
			if rawjson.Get(old, key) == nil {
				if more, err := rawjson.Set(all, val, key); err == nil {
					all = more
				}
			}
			return true
		})
		if err != nil {
			return params
		}
	}
	out, err := rawjson.Set(params, all, "_meta")
	if err != nil {
		return params
	}
	return out
}
