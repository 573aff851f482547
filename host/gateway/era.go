package gateway

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// The protocol versions that the gateway speaks, newest first.
const (
	version20260728 = "2026-07-28"
	version20251125 = "2025-11-25"
	version20250326 = "2025-03-26"
)

var (
	legacyVersions = []string{version20251125, "2025-06-18", version20250326, "2024-11-05"}
	allVersions    = append([]string{version20260728}, legacyVersions...)
)

// Members of _meta that describe a stateless request and what belongs to it
// (SEP-2575).
const (
	metaVersion        = "io.modelcontextprotocol/protocolVersion"
	metaClientInfo     = "io.modelcontextprotocol/clientInfo"
	metaCapabilities   = "io.modelcontextprotocol/clientCapabilities"
	metaLogLevel       = "io.modelcontextprotocol/logLevel"
	metaServerInfo     = "io.modelcontextprotocol/serverInfo"
	metaSubscriptionID = "io.modelcontextprotocol/subscriptionId"
)

// negotiate answers the version that a client asks for at initialize: its own
// if we speak it, else our newest (MCP 2025-11-25, lifecycle).
func negotiate(asked string) string {
	if slices.Contains(legacyVersions, asked) {
		return asked
	}
	return legacyVersions[0]
}

// versionInMeta returns the protocol version that a message declares for
// itself, "" if it declares none.
func versionInMeta(params json.RawMessage) string {
	// Most messages have none, and a search is cheaper than a scan.
	if !bytes.Contains(params, []byte(metaVersion)) {
		return ""
	}
	return rawjson.Text(params, "_meta", metaVersion)
}

// isModern reports whether a message that came over HTTP belongs to the
// stateless era. A contradiction between header and body counts as modern,
// since that era has the rules for reporting it.
func isModern(h http.Header, m *jsonrpc.Message) bool {
	header := h.Get(headerVersion)
	inMeta := versionInMeta(m.Params)
	switch {
	case header == version20260728:
		return true
	case header != "":
		return inMeta != "" && inMeta != header || header > version20260728
	case inMeta != "":
		return true
	}
	// No version at all: only the method header gives it away. An initialize
	// or a message of a session is older, whatever else it carries.
	return h.Get(headerMethod) != "" && h.Get(headerSession) == "" && m.Method != "initialize"
}

// unsupportedVersion is the answer to a version that the gateway does not
// speak (SEP-2575).
func unsupportedVersion(requested string) *jsonrpc.Error {
	e := jsonrpc.Errorf(codeUnsupportedVersion, "unsupported protocol version")
	data := append([]byte(`{"supported":`), versionsJSON...)
	data = append(data, `,"requested":`...)
	e.Data = append(append(data, rawjson.Quote(requested)...), '}')
	return e
}

var versionsJSON = func() []byte {
	b, err := json.Marshal(allVersions)
	if err != nil { // strings always encode
		panic(err)
	}
	return b
}()
