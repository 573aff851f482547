package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// A SchemaSource is a [relay.Endpoint] that knows the input schemas of its
// tools. If an endpoint implements it, the gateway checks the Mcp-Param-*
// headers of calls against the arguments (SEP-2243).
type SchemaSource interface {
	// InputSchema returns the schema of the tool with that (outer) name, nil
	// if there is no such tool.
	InputSchema(tool string) json.RawMessage
}

// checkHeaders holds the headers of a stateless message against its body
// (SEP-2243, SEP-2575). Its errors go with HTTP status 400.
func checkHeaders(h http.Header, m *jsonrpc.Message, endpoint relay.Endpoint) *jsonrpc.Error {
	version := h.Get(headerVersion)
	if version == "" {
		return mismatch("the %s header is missing", headerVersion)
	}
	inMeta := versionInMeta(m.Params)
	if m.IsRequest() && inMeta == "" {
		return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "missing or invalid _meta field %q", metaVersion)
	}
	if inMeta != "" && inMeta != version {
		return mismatch("the %s header %q differs from the request's %s %q", headerVersion, version, metaVersion, inMeta)
	}
	if version != version20260728 {
		return unsupportedVersion(version)
	}
	if m.IsResponse() {
		return nil
	}
	switch method := h.Get(headerMethod); method {
	case "":
		return mismatch("the %s header is missing", headerMethod)
	case m.Method:
	default:
		return mismatch("the %s header %q differs from the method %q", headerMethod, method, m.Method)
	}
	return checkName(h, m, endpoint)
}

func mismatch(format string, args ...any) *jsonrpc.Error {
	return jsonrpc.Errorf(codeHeaderMismatch, "header mismatch: "+format, args...)
}

// checkName checks Mcp-Name, and for tools Mcp-Param-*.
func checkName(h http.Header, m *jsonrpc.Message, endpoint relay.Endpoint) *jsonrpc.Error {
	member := "name"
	switch m.Method {
	case "tools/call", "prompts/get":
	case "resources/read":
		member = "uri"
	case "tasks/get", "tasks/update", "tasks/cancel": // SEP-2663
		member = "taskId"
	default:
		return nil
	}
	var f [2]json.RawMessage
	if rawjson.Members(m.Params, f[:], member, "arguments") != nil || len(f[0]) == 0 || f[0][0] != '"' {
		return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "the params of %s need a %s", m.Method, member)
	}
	name := rawjson.Unquote(f[0])
	header := h.Get(headerName)
	if header == "" && name != "" {
		return mismatch("the %s header is missing", headerName)
	}
	if decoded, ok := decodeHeader(header); header != name && (!ok || decoded != name) {
		return mismatch("the %s header %q differs from the %s %q", headerName, header, member, name)
	}
	if m.Method != "tools/call" {
		return nil
	}
	source, ok := endpoint.(SchemaSource)
	if !ok {
		return nil
	}
	schema := source.InputSchema(name)
	if !bytes.Contains(schema, []byte(`"x-mcp-header"`)) {
		return nil
	}
	return checkParams(h, schema, f[1], "")
}

// checkParams checks the headers of the arguments that a schema marks with
// x-mcp-header, at any depth of properties.
func checkParams(h http.Header, schema, args json.RawMessage, path string) *jsonrpc.Error {
	var wrong *jsonrpc.Error
	err := rawjson.Fields(rawjson.Get(schema, "properties"), func(name string, prop json.RawMessage) bool {
		if !isObject(prop) {
			return true
		}
		var value json.RawMessage
		if isObject(args) {
			value = rawjson.Get(args, name)
		}
		if header := rawjson.Text(prop, "x-mcp-header"); header != "" {
			wrong = checkParam(h.Get(headerParam+header), headerParam+header, value, path+name)
		}
		if wrong == nil {
			wrong = checkParams(h, prop, value, path+name+".")
		}
		return wrong == nil
	})
	if err != nil {
		return nil // no properties
	}
	return wrong
}

func checkParam(got, header string, value json.RawMessage, param string) *jsonrpc.Error {
	if value == nil || string(value) == "null" {
		if got != "" {
			return mismatch("the %s header belongs to the argument %q, which is absent", header, param)
		}
		return nil
	}
	if got == "" {
		if string(value) == `""` {
			return nil // the header of an empty string is empty
		}
		return mismatch("the %s header for the argument %q is missing", header, param)
	}
	text, ok := decodeHeader(got)
	if !ok {
		return mismatch("the %s header is not valid Base64", header)
	}
	if !sameValue(text, value) {
		return mismatch("the %s header differs from the argument %q", header, param)
	}
	return nil
}

// maxSafe bounds integers that every JSON implementation can hold.
const maxSafe = 1<<53 - 1

// sameValue compares a header with an argument. Only strings, booleans and
// integers can be mirrored; numbers compare by value.
func sameValue(text string, value json.RawMessage) bool {
	switch value[0] {
	case '"':
		return text == rawjson.Unquote(value)
	case 't', 'f':
		return text == string(value)
	case '{', '[':
		return false
	}
	if text == string(value) {
		return strings.Trim(text, "-0123456789") == ""
	}
	a, errA := strconv.ParseFloat(text, 64)
	b, errB := strconv.ParseFloat(string(value), 64)
	return errA == nil && errB == nil && a == b && a == math.Trunc(a) && math.Abs(a) <= maxSafe
}

// decodeHeader undoes the encoding of values that a header can't hold. It
// returns false if the text claims to be encoded and is not.
func decodeHeader(text string) (string, bool) {
	inner, ok := strings.CutPrefix(text, "=?base64?")
	if !ok {
		return text, true
	}
	if inner, ok = strings.CutSuffix(inner, "?="); !ok {
		return text, true
	}
	decoded, err := base64.StdEncoding.DecodeString(inner)
	return string(decoded), err == nil
}

// paramHeaders returns the Mcp-Param-* fields of a request, nil if it has none.
func paramHeaders(h http.Header) map[string]string {
	var out map[string]string
	for name, values := range h {
		if strings.HasPrefix(name, headerParam) && len(values) > 0 {
			if out == nil {
				out = make(map[string]string)
			}
			out[name] = values[0]
		}
	}
	return out
}
