package shared

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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

// discoverPatience is how long server/discover waits for an answer under
// DiscoverFirst. Some older servers ignore methods that they do not know.
const discoverPatience = 5 * time.Second

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
	preferred    bool   // the host asks for that version by name
	initialize   string // the version to offer in initialize
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
	if v := open.ProtocolVersion; v != "" && v < g.discover { // versions are dates
		g.discover = ""
		if slices.Contains(initializeVersions, v) {
			g.initialize = v
		}
	}
	g.preferred = open.ProtocolVersion >= discoverVersions[0]
	if open.SkipDiscover {
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

// handshake is one session's way to an initialised connection.
type handshake struct {
	s    *session
	conn Conn
	held []*transportpb.PluginFrame // what came before SessionInit
}

// connect dials and agrees with the server on a version. The order of attempts
// is the plugin's [Discover].
func (h *handshake) connect() (*transportpb.SessionInit, error) {
	order := h.s.svc.discover
	switch {
	case h.s.hello.discover == "":
		order = DiscoverNever
	case h.s.hello.preferred && order == DiscoverFallback:
		order = DiscoverFirst
	}
	if err := h.dial(); err != nil {
		return nil, err
	}
	if order == DiscoverFirst {
		init, err := h.discoverFirst()
		if init != nil || err != nil {
			return init, err
		}
	}
	init, err := h.initialize()
	if refused, ok := errors.AsType[*refusal](err); ok && h.settleFor(refused.supported) {
		if err := h.redial(); err != nil {
			return nil, err
		}
		init, err = h.initialize()
	}
	refused, ok := errors.AsType[*refusal](err)
	if !ok {
		return init, err
	}
	if order == DiscoverFallback && refused.otherEra() {
		h.s.about.Logger.Debug("the server refuses initialize; trying server/discover", "answer", refused.message)
		if err := h.redial(); err != nil {
			return nil, err
		}
		init, err := h.discover()
		if err == nil {
			return init, nil
		}
		if again, ok := errors.AsType[*refusal](err); ok {
			refused.message += "; " + again.message
		} else {
			refused.message += "; server/discover: " + err.Error()
		}
	}
	return nil, refused.end()
}

// settleFor chooses the newest version to offer in initialize among those that
// the server has named. False: there is none, or it was the one offered.
func (h *handshake) settleFor(supported []string) bool {
	for _, version := range initializeVersions {
		if slices.Contains(supported, version) {
			was := h.s.hello.initialize
			h.s.hello.initialize = version
			return version != was
		}
	}
	return false
}

// discoverFirst returns nothing at all if initialize is to be tried next, on
// the connection that there is then.
func (h *handshake) discoverFirst() (*transportpb.SessionInit, error) {
	conn := h.conn
	impatience := time.AfterFunc(discoverPatience, func() { h.s.closeWithin(conn) })
	init, err := h.discover()
	impatient := !impatience.Stop()
	if err == nil && !impatient {
		return init, nil
	}
	if h.s.ctx.Err() != nil {
		return nil, errClosing
	}
	if end, ok := errors.AsType[*EndError](err); ok && !impatient {
		return nil, end
	}
	h.s.about.Logger.Debug("no session by server/discover; trying initialize", "error", err)
	if h.s.svc.discover == DiscoverFallback {
		return nil, h.redial() // the refused request may have spoilt this connection
	}
	if _, ok := errors.AsType[*refusal](err); ok && !impatient {
		return nil, nil
	}
	if failed, ok := errors.AsType[*WriteError](err); ok && !impatient {
		if failed.Reason == transportpb.TransportError_REASON_AUTHORIZATION {
			return nil, failed
		}
		return nil, nil
	}
	return nil, h.redial()
}

func (h *handshake) dial() error {
	conn, err := h.s.svc.dial(h.s.ctx, h.s.about, h.s.open.Config)
	if err != nil {
		return err
	}
	if !h.s.setConn(conn) {
		return errClosing
	}
	h.conn = conn
	return nil
}

func (h *handshake) redial() error {
	h.s.closeWithin(h.conn)
	h.held = nil
	return h.dial()
}

// initialize performs the handshake of the versions up to 2025-11-25.
func (h *handshake) initialize() (*transportpb.SessionInit, error) {
	params := slices.Concat(
		[]byte(`{"protocolVersion":`), rawjson.Quote(h.s.hello.initialize),
		[]byte(`,"capabilities":`), h.s.hello.capabilities,
		[]byte(`,"clientInfo":`), h.s.hello.client, []byte("}"))
	result, err := h.exchange(initializeID, "initialize", params)
	if err != nil {
		return nil, err
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
	if err := h.conn.Write(h.s.ctx, &note); err != nil {
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
	version := h.s.hello.discover
	params, err := rawjson.Set(nil, h.s.hello.meta(version), "_meta")
	if err != nil {
		return nil, fmt.Errorf("making the parameters of server/discover: %w", err)
	}
	result, err := h.exchange(discoverID, "server/discover", params)
	if refused, ok := errors.AsType[*refusal](err); ok && slices.Contains(refused.supported, version) {
		// It speaks the version after all, as a cluster does in the middle of
		// its update.
		result, err = h.exchange(discoverID, "server/discover", params)
	}
	if err != nil {
		return nil, err
	}
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

// exchange sends a request and reads until its answer. The result is valid
// until the next Read.
func (h *handshake) exchange(id json.RawMessage, method string, params json.RawMessage) (json.RawMessage, error) {
	ask := jsonrpc.Message{ID: id, Method: method, Params: params}
	if err := h.conn.Write(h.s.ctx, &ask); err != nil {
		if failed, ok := errors.AsType[*WriteError](err); ok && failed.Reason == transportpb.TransportError_REASON_CONNECTION {
			// Read knows better why there is nobody to write to.
			if _, why := h.conn.Read(h.s.ctx); why != nil {
				return nil, why
			}
		}
		return nil, err
	}
	for {
		in, err := h.conn.Read(h.s.ctx)
		in.clean()
		switch {
		case err != nil:
			return nil, err
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
			if err := h.conn.Write(h.s.ctx, &pong); err != nil {
				return nil, err
			}
		case len(h.held) < heldMax:
			in.ID, in.Params = slices.Clone(in.ID), slices.Clone(in.Params)
			h.held = append(h.held, h.s.unasked(&in))
		}
	}
}
