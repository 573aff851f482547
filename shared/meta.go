package shared

import (
	"bytes"
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

// withoutMeta returns params without the members of _meta that a request of
// protocol 2026-07-28 must carry, for a session of an older one. The host may
// have made the request before it could know which session it would meet, and
// servers of the MCP SDK for Go refuse what says another version than theirs.
func withoutMeta(params json.RawMessage) json.RawMessage {
	if !bytes.Contains(params, []byte(metaVersion)) || rawjson.Get(params, "_meta", metaVersion) == nil {
		return params
	}
	for _, member := range []string{metaVersion, metaClient, metaCapabilities} {
		params = rawjson.Delete(params, "_meta", member)
	}
	return params
}
