package gateway

import (
	"net/http"
	"strings"
)

// Header names in their canonical form (net/http).
const (
	headerVersion = "Mcp-Protocol-Version"
	headerSession = "Mcp-Session-Id"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	headerParam   = "Mcp-Param-"
	headerEventID = "Last-Event-Id"
)

// accept says which kinds of responses a client takes.
type accept struct{ json, stream bool }

// accepts reads the Accept header. Clients must list both kinds (MCP
// 2025-11-25, transports); one that lists only one gets only that, and one
// that says nothing takes everything (RFC 9110, 12.5.1).
func accepts(h http.Header) accept {
	values := h["Accept"]
	if len(values) == 0 {
		return accept{json: true, stream: true}
	}
	if len(values) == 1 && values[0] == "application/json, text/event-stream" {
		return accept{json: true, stream: true}
	}
	var a accept
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			kind, _, _ := strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case "application/json", "application/*":
				a.json = true
			case "text/event-stream", "text/*":
				a.stream = true
			case "*/*":
				a.json, a.stream = true, true
			}
		}
	}
	return a
}

// isJSON reports whether the body is declared to be JSON.
func isJSON(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "application/json")
}
