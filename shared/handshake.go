package shared

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// The MCP versions that the kit speaks, the newest of each kind first. Those
// of an era differ in nothing that a relay sees.
var (
	discoverVersions   = []string{"2026-07-28"}
	initializeVersions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}
)

// The _meta members that each request of protocol 2026-07-28 carries (SEP-2575).
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaServer       = "io.modelcontextprotocol/serverInfo"
)

// codeUnsupportedVersion is UnsupportedProtocolVersionError (SEP-2575).
const codeUnsupportedVersion = -32022

// heldMax bounds what a server sends on its own during the handshake and is
// kept for the host until SessionInit has gone out.
const heldMax = 64

// Ids of the kit's own requests. The host's are positive numbers.
var (
	initializeID = json.RawMessage(`0`)
	discoverID   = json.RawMessage(`"discover"`)
	listenID     = json.RawMessage(`"listen"`)
)

// greeting is what the host declares to the server.
type greeting struct {
	client       json.RawMessage
	capabilities json.RawMessage
	discover     string // the version for server/discover, "" for none
	initialize   string // the version to offer in initialize
	newer, older bool   // the host wants that era to be tried first
}

func newGreeting(open *transportpb.OpenSession) greeting {
	g := greeting{
		client:       open.ClientInfo,
		capabilities: open.ClientCapabilities,
		discover:     discoverVersions[0],
		initialize:   initializeVersions[0],
	}
	if len(g.client) == 0 {
		g.client = json.RawMessage(`{"name":"hermes-host","version":"unknown"}`)
	}
	if len(g.capabilities) == 0 {
		g.capabilities = json.RawMessage(`{}`)
	}
	first := open.ProtocolVersion
	if v := open.ClientVersion; v != "" && (first == "" || v < first) { // versions are dates
		first = v
	}
	if slices.Contains(initializeVersions, first) {
		g.initialize = first
	}
	g.newer = max(open.ProtocolVersion, open.ClientVersion) >= g.discover
	g.older = open.ClientVersion != "" && open.ClientVersion < g.discover
	if v := open.ProtocolVersion; v != "" && v < g.discover || open.SkipDiscover {
		g.discover = ""
	}
	return g
}

// A refusal is a server's answer to the handshake that is no agreement.
type refusal struct {
	message   string
	code      int64    // of the JSON-RPC error; 0 if the answer was none
	supported []string // the versions that it names
}

// refused makes a refusal of an error answer. Its data name the versions that
// the server speaks, if the trouble is one with versions (SEP-2575; before,
// the specification's lifecycle).
func refused(what string, e *jsonrpc.Error) *refusal {
	r := &refusal{message: fmt.Sprintf("the server %s: %v", what, e), code: e.Code}
	// Other data mean something else.
	_ = json.Unmarshal(rawjson.Get(e.Data, "supported"), &r.supported)
	return r
}

// Error returns the message.
func (r *refusal) Error() string { return r.message }

// otherEra reports whether the server may understand the other handshake: it
// did not know the request, or not its form, or not its version.
func (r *refusal) otherEra() bool {
	switch r.code {
	case 0, codeUnsupportedVersion, jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams, jsonrpc.CodeInvalidRequest:
		return true
	}
	return false
}

func (r *refusal) end() *EndError {
	return &EndError{Class: transportpb.SessionEnd_CLASS_PROTOCOL, Message: r.message, Retryable: !r.otherEra()}
}

// initialize performs the handshake of the versions up to 2025-11-25.
func (h *handshake) initialize(offer string) (*transportpb.SessionInit, error) {
	params := slices.Concat(
		[]byte(`{"protocolVersion":`), rawjson.Quote(offer),
		[]byte(`,"capabilities":`), h.s.hello.capabilities,
		[]byte(`,"clientInfo":`), h.s.hello.client, []byte("}"))
	h.late = false
	done := h.askLate()
	result, err := h.exchange(initializeID, "initialize", params)
	done(err)
	if err != nil {
		return nil, err
	}
	if h.late {
		return h.discovered(result)
	}
	var f [4]json.RawMessage
	if err := rawjson.Members(result, f[:], "protocolVersion", "serverInfo", "capabilities", "instructions"); err != nil {
		return nil, &refusal{message: "the server answered initialize with something that is no object"}
	}
	version := rawjson.Unquote(f[0])
	if !slices.Contains(initializeVersions, version) {
		return nil, &refusal{message: fmt.Sprintf("the server wants MCP version %q; this plugin speaks %s",
			version, strings.Join(slices.Concat(discoverVersions, initializeVersions), ", "))}
	}
	h.initialized(version)
	note := jsonrpc.Message{Method: "notifications/initialized"}
	if err := h.write(&note); err != nil {
		return nil, fmt.Errorf("completing the handshake: %w", err)
	}
	return &transportpb.SessionInit{
		ProtocolVersion: version,
		Result:          result,
		ServerInfo:      f[1],
		Capabilities:    f[2],
		Instructions:    rawjson.Unquote(f[3]),
	}, nil
}

// discover performs the handshake of protocol 2026-07-28 (SEP-2575).
func (h *handshake) discover() (*transportpb.SessionInit, error) {
	params, err := h.discoverParams()
	if err != nil {
		return nil, err
	}
	result, err := h.exchange(discoverID, "server/discover", params)
	if refused, ok := errors.AsType[*refusal](err); ok && slices.Contains(refused.supported, h.s.hello.discover) {
		// It speaks the version after all, as a cluster does in the middle of
		// its update.
		result, err = h.exchange(discoverID, "server/discover", params)
	}
	if err != nil {
		return nil, err
	}
	return h.discovered(result)
}

// discoverParams are those of server/discover.
func (h *handshake) discoverParams() (json.RawMessage, error) {
	params, err := rawjson.Set(nil, h.s.hello.meta(h.s.hello.discover), "_meta")
	if err != nil {
		return nil, fmt.Errorf("making the parameters of server/discover: %w", err)
	}
	return params, nil
}

// discovered makes a session of the result of server/discover.
func (h *handshake) discovered(result json.RawMessage) (*transportpb.SessionInit, error) {
	version := h.s.hello.discover
	var supported []string
	if json.Unmarshal(rawjson.Get(result, "supportedVersions"), &supported) != nil || !slices.Contains(supported, version) {
		return nil, &refusal{message: fmt.Sprintf("server/discover: the server does not speak MCP version %s but %s",
			version, strings.Join(supported, ", "))}
	}
	h.initialized(version)
	return &transportpb.SessionInit{
		ProtocolVersion: version,
		Result:          result,
		ServerInfo:      rawjson.Get(result, "_meta", metaServer),
		Capabilities:    rawjson.Get(result, "capabilities"),
		Instructions:    rawjson.Text(result, "instructions"),
	}, nil
}

func (h *handshake) initialized(version string) {
	if c, ok := h.conn.(Initialized); ok {
		c.Initialized(version)
	}
}

// write sends a message of the handshake. It may be called concurrently.
func (h *handshake) write(m *jsonrpc.Message) error {
	h.writing.Lock()
	defer h.writing.Unlock()
	return h.conn.Write(h.s.ctx, m)
}

// exchange sends a request and reads until its answer, which for initialize may
// also be that to a late server/discover. The result is valid until the next
// Read.
func (h *handshake) exchange(id json.RawMessage, method string, params json.RawMessage) (json.RawMessage, error) {
	ask := jsonrpc.Message{ID: id, Method: method, Params: params}
	if err := h.write(&ask); err != nil {
		if failed, ok := errors.AsType[*WriteError](err); ok && failed.Reason == transportpb.TransportError_REASON_CONNECTION {
			// Read knows better why there is nobody to write to.
			if _, why := read(h.s.ctx, h.conn); why != nil {
				return nil, why
			}
		}
		return nil, err
	}
	for {
		in, err := read(h.s.ctx, h.conn)
		in.clean()
		switch {
		case err != nil:
			return nil, err
		case method == "initialize" && in.IsResponse() && sameID(in.ID, discoverID) && in.Result != nil:
			h.late = true
			return in.Result, nil
		case in.IsResponse() && !sameID(in.ID, id):
			if in.ID == nil && in.Error != nil {
				return nil, refused("can't read "+method, in.Error)
			}
		case in.Failure != nil:
			return nil, in.Failure
		case in.IsResponse() && in.Error != nil:
			return nil, refused("refuses "+method, in.Error)
		case in.IsResponse():
			return in.Result, nil
		case in.IsRequest() && in.Method == "ping":
			pong := jsonrpc.Message{ID: slices.Clone(in.ID)}
			if err := h.write(&pong); err != nil {
				return nil, err
			}
		case len(h.held) < heldMax:
			in.ID, in.Params = slices.Clone(in.ID), slices.Clone(in.Params)
			h.held = append(h.held, h.s.unasked(&in))
		}
	}
}
