package shared

import "testing"

func TestWithoutMeta(t *testing.T) {
	const ours = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x"},"io.modelcontextprotocol/clientCapabilities":{}`
	for _, c := range []struct{ params, want string }{
		{``, ``},
		{`{"x":9007199254740993}`, `{"x":9007199254740993}`},
		{`{"_meta":{"progressToken":7},"x":1}`, `{"_meta":{"progressToken":7},"x":1}`},
		{`{"x":1,"_meta":{` + ours + `}}`, `{"x":1,"_meta":{}}`},
		{`{"_meta":{"progressToken":7,` + ours + `,"y":1.0},"x":1}`, `{"_meta":{"progressToken":7,"y":1.0},"x":1}`},
		// A tool may be called with such a text, which is none of ours.
		{`{"arguments":{` + ours + `}}`, `{"arguments":{` + ours + `}}`},
	} {
		if got := string(withoutMeta([]byte(c.params))); got != c.want {
			t.Errorf("%s: got %s, want %s", c.params, got, c.want)
		}
	}
}
