package relay

import (
	"encoding/json"
	"maps"
	"testing"
)

// schemaSource is the gateway's SchemaSource.
type schemaSource interface {
	InputSchema(tool string) json.RawMessage
}

func TestInputSchemaByOuterName(t *testing.T) {
	a := newServer("a")
	a.lists["tools/list"] = `{"tools":[{"name":"x","inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"}}}}]}`
	w := newWorld(t, a)
	for endpointName, tool := range map[string]string{"": "a__x", "a": "x"} {
		e := w.endpoint(endpointName).(schemaSource)
		if got := string(e.InputSchema(tool)); got != `{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"}}}` {
			t.Errorf("/mcp/%s: %s", endpointName, got)
		}
		if got := e.InputSchema("other"); got != nil {
			t.Errorf("unknown tool: %s", got)
		}
	}
}

func TestParamHeaders(t *testing.T) {
	const schema = `{"type":"object","properties":{
		"s":{"type":"string","x-mcp-header":"S"},
		"n":{"type":"integer","x-mcp-header":"n-umber"},
		"b":{"type":"boolean","x-mcp-header":"B"},
		"o":{"type":"object","properties":{"in":{"type":"string","x-mcp-header":"Inner"}}},
		"plain":{"type":"string"}}}`
	sent := map[string]string{"Mcp-Param-Sent": "1"}
	for _, tt := range []struct {
		schema, params string
		want           map[string]string
	}{
		{schema, `{"arguments":{"s":"eu","n":7,"b":true,"o":{"in":"x"},"plain":"p"}}`,
			map[string]string{"Mcp-Param-S": "eu", "Mcp-Param-N-Umber": "7", "Mcp-Param-B": "true", "Mcp-Param-Inner": "x"}},
		{schema, `{"arguments":{"s":"Grüße","n":1e2}}`, map[string]string{"Mcp-Param-S": "=?base64?R3LDvMOfZQ==?=", "Mcp-Param-N-Umber": "100"}},
		{schema, `{"arguments":{"s":" padded","n":1.5}}`, map[string]string{"Mcp-Param-S": "=?base64?IHBhZGRlZA==?="}},
		{schema, `{"arguments":{"s":"=?base64?x?=","n":9007199254740993}}`, map[string]string{"Mcp-Param-S": "=?base64?PT9iYXNlNjQ/eD89?="}},
		{schema, `{"arguments":{"s":null,"o":"no object"}}`, map[string]string{}},
		{schema, `{}`, map[string]string{}},
		{`{"type":"object"}`, `{"arguments":{"s":"eu"}}`, sent},
		{``, `{"arguments":{"s":"eu"}}`, sent},
	} {
		if got := paramHeaders(sent, json.RawMessage(tt.schema), json.RawMessage(tt.params)); !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.params, got, tt.want)
		}
	}
}
