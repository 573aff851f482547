package catalog

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestMarks(t *testing.T) {
	for _, c := range []struct{ properties, wrong string }{
		{`{"a":{"type":"string","x-mcp-header":"Region"},"b":{"type":"integer","x-mcp-header":"Priority"},"c":{"type":"boolean","x-mcp-header":"X_1!"}}`, ""},
		{`{"a":{"type":"object","properties":{"b":{"type":"string","x-mcp-header":"Deep"}}}}`, ""},
		{`{"x-mcp-header":{"type":"object"}}`, ""},
		{`{"a":true,"b":{"description":"\"x-mcp-header\""}}`, ""},
		{`{"a":{"type":"string","x-mcp-header":""}}`, `of "a" is ""`},
		{`{"a":{"type":"string","x-mcp-header":7}}`, `is 7, which is no name`},
		{`{"a":{"type":"string","x-mcp-header":null}}`, `is null, which is no name`},
		{`{"a":{"type":"string","x-mcp-header":"My Region"}}`, "no name of a header field"},
		{`{"a":{"type":"string","x-mcp-header":"Region:"}}`, "no name of a header field"},
		{`{"a":{"type":"string","x-mcp-header":"Région"}}`, "no name of a header field"},
		{`{"a":{"type":"string","x-mcp-header":"A\r\nB"}}`, "no name of a header field"},
		{`{"a":{"type":"number","x-mcp-header":"N"}}`, "is not at a string"},
		{`{"a":{"x-mcp-header":"N"}}`, "is not at a string"},
		{`{"a":{"type":["string"],"x-mcp-header":"N"}}`, "is not at a string"},
		{`{"a":{"type":"object","x-mcp-header":"O","properties":{}}}`, "is not at a string"},
		{`{"a":{"type":"string","x-mcp-header":"Twice"},"b":{"type":"string","x-mcp-header":"tWICE"}}`, `of "b" is "tWICE", which another`},
		{`{"a":{"type":"string","x-mcp-header":"Twice"},"b":{"type":"object","properties":{"c":{"type":"string","x-mcp-header":"Twice"}}}}`, `of "c" is "Twice", which another`},
	} {
		raw := json.RawMessage(`{"name":"t","inputSchema":{"type":"object","properties":` + c.properties + `}}`)
		it, bad := read(Tools, raw)
		switch {
		case c.wrong == "" && it == nil:
			t.Errorf("%s: refused: %s", c.properties, bad.Reason)
		case c.wrong != "" && (bad == nil || !strings.Contains(bad.Reason, c.wrong)):
			t.Errorf("%s: got %v, want %q", c.properties, bad, c.wrong)
		}
	}
}
