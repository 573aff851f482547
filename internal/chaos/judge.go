//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// metaError is where a result says that its error is the host's.
const metaError = "io.github.hermes-host/error"

// judge says what a result is: the answer of the right tool to the right call,
// or an error of the host that says what a caller must know.
func judge(s *server, tool string, a arguments, res *mcp.CallToolResult) (o outcome, reason, detail string) {
	text := ""
	if len(res.Content) == 1 {
		if c, ok := res.Content[0].(*mcp.TextContent); ok {
			text = c.Text
		}
	}
	if !res.IsError {
		want := answer(s.name, a.Text)
		if tool == "big" {
			want += strings.Repeat(".", a.Size)
		}
		if text != want {
			return wrong, "another answer", fmt.Sprintf("%d bytes instead of %d: %.80q", len(text), len(want), text)
		}
		return answered, "", ""
	}
	raw, err := json.Marshal(res.Meta[metaError])
	var facts struct {
		Server, Reason string
		Sent           *bool
	}
	if err == nil {
		err = json.Unmarshal(raw, &facts)
	}
	switch {
	case err != nil || facts.Sent == nil || facts.Reason == "":
		return wrong, "an error without facts", text
	case text == "" || !strings.Contains(text, s.name) || facts.Server != s.name:
		return wrong, "an error that does not name the server", text
	case *facts.Sent:
		return unknown, facts.Reason, text
	}
	return unsent, facts.Reason, text
}
