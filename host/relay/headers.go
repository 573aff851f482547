package relay

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/hermes-host/hermes-host/internal/rawjson"
)

// InputSchema returns the input schema of the tool with that outer name, nil if
// no list has shown such a tool. The gateway holds a call's Mcp-Param-* fields
// against it (SEP-2243).
func (e *endpoint) InputSchema(tool string) json.RawMessage { return e.cat.View().InputSchema(tool) }

// paramHeaders returns the Mcp-Param-* fields that a call of a tool needs at a
// server of protocol 2026-07-28: those of the arguments that the tool's schema
// marks with x-mcp-header (SEP-2243). They are made here, since not every
// client sends them: older ones don't know them, and over stdio there are none.
// What the client has sent stands where the schema says nothing.
func paramHeaders(sent map[string]string, schema, params json.RawMessage) map[string]string {
	if !bytes.Contains(schema, []byte(`"x-mcp-header"`)) {
		return sent
	}
	out := map[string]string{}
	mirror(out, schema, rawjson.Get(params, "arguments"))
	return out
}

// mirror adds the fields of one level of properties, and of those within.
func mirror(out map[string]string, schema, args json.RawMessage) {
	if len(args) == 0 || args[0] != '{' {
		return
	}
	// A schema whose properties are no object marks nothing.
	_ = rawjson.Fields(rawjson.Get(schema, "properties"), func(name string, prop json.RawMessage) bool {
		if prop[0] != '{' {
			return true
		}
		value := rawjson.Get(args, name)
		if field := rawjson.Text(prop, "x-mcp-header"); field != "" {
			if text, ok := mirrored(value); ok {
				out[textproto.CanonicalMIMEHeaderKey("Mcp-Param-"+field)] = headerValue(text)
			}
		}
		mirror(out, prop, value)
		return true
	})
}

// mirrored returns the text of an argument for a header field. Only strings,
// booleans and integers that every JSON implementation can hold have one.
func mirrored(value json.RawMessage) (string, bool) {
	if len(value) == 0 {
		return "", false
	}
	switch value[0] {
	case '"':
		return rawjson.Unquote(value), true
	case 't', 'f':
		return string(value), true
	case '{', '[', 'n':
		return "", false
	}
	n, err := strconv.ParseFloat(string(value), 64)
	if err != nil || n != math.Trunc(n) || math.Abs(n) > 1<<53-1 {
		return "", false
	}
	return strconv.FormatInt(int64(n), 10), true
}

// headerValue encodes what a header field can't hold as it is.
func headerValue(text string) string {
	const begin, end = "=?base64?", "?="
	plain := strings.Trim(text, " ") == text && !(strings.HasPrefix(text, begin) && strings.HasSuffix(text, end))
	for i := 0; plain && i < len(text); i++ {
		plain = text[i] >= 0x20 && text[i] <= 0x7e
	}
	if plain {
		return text
	}
	return begin + base64.StdEncoding.EncodeToString([]byte(text)) + end
}
