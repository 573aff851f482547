// Package config reads the host's configuration: HCL, in native or JSON
// syntax.
//
// It works in two phases. [Load] parses one file, evaluates variables, locals
// and everything that the host owns, and needs nothing but the file.
// [File.Resolve] then evaluates the transport blocks against the schemas that
// the transport plugins describe, and lets the plugins check the result. Each
// phase reports all that is wrong at once, as [Diagnostics] that point at the
// user's line and never show a secret.
//
// The package starts nothing and keeps no state: loading a file again yields
// values that compare with [Server.Equal].
package config

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/hashicorp/hcl/v2"
)

// Config is a configuration that has been read and resolved.
type Config struct {
	Path    string // of the file, absolute
	Dir     string // the directory that relative paths in the file are relative to
	Listen  Listen
	Log     Log
	Servers []Server // in the order of the file, disabled ones included
	Plugins []Plugin // in the order of the file

	Endpoints []Endpoint // in the order of the file

	secrets *secrets
}

// Redact returns s with every secret value of the configuration that occurs
// in it replaced. It is the last defence for texts that come from elsewhere,
// such as a plugin's error message. It may be called concurrently.
func (c *Config) Redact(s string) string { return c.secrets.redact(s) }

// Listen says where and how the host serves its clients over HTTP.
type Listen struct {
	Address            string   // host:port; 127.0.0.1:7717
	Token              string   // the bearer token that clients must send; empty: none needed. Secret.
	AllowedOrigins     []string // Origin headers accepted besides loopback ones, such as "https://app.example.com"
	AllowedHosts       []string // Host headers accepted besides loopback ones, such as "mcp.example.com"
	SessionIdleTimeout time.Duration
	MaxSessions        int
	MaxRequestBytes    int64

	at hcl.Range
}

// Where returns the place of the address in the file, as "file:line:column",
// or "" if it is the default.
func (l Listen) Where() string { return where(l.at) }

// Log holds the settings of the host's log.
type Log struct {
	Level  string // trace, debug, info, warn or error
	Format string // auto, text or json
}

// Plugin is a third party's transport plugin.
type Plugin struct {
	Kind    string            // the label of the transport blocks that it serves
	Command string            // an absolute path, or a bare name to be found on PATH
	Args    []string          // never nil
	SHA256  string            // of the binary, lower-case hex; empty: not checked
	Env     map[string]string // added to the plugin's environment. Secret.

	at hcl.Range
}

// Where returns the place of the block in the file, as "file:line:column".
func (p Plugin) Where() string { return where(p.at) }

// Equal reports whether both say the same, wherever they were written.
func (p Plugin) Equal(o Plugin) bool {
	p.at, o.at = hcl.Range{}, hcl.Range{}
	return reflect.DeepEqual(p, o)
}

// Server is one MCP server that the host looks after.
type Server struct {
	Name       string
	Enabled    bool
	Isolate    *bool         // a plugin process of its own; nil: as the plugin describes
	Prefix     string        // of the names in the catalog; empty: names stay as they are
	CallWait   time.Duration // how long a call waits for a session that is being made
	KeepAlive  time.Duration // how often an idle session is checked; 0: never
	MaxMessage int64         // the largest single message from the server, in bytes
	Protocol   string        // the newest MCP version to offer to the server; "": as the transport does

	// Session is "shared", one session for all clients, or "client", one for
	// each client session besides. IdleTimeout and MaxSessions are for those.
	Session     string
	IdleTimeout time.Duration
	MaxSessions int
	// Capabilities are what the host declares to a shared session: words such
	// as "sampling" and "elicitation.url". Never nil.
	Capabilities []string

	Timeouts  Timeouts
	Retry     Retry
	Revive    Revive
	CrashLoop CrashLoop
	Breaker   Breaker
	Tools     Filter
	Resources Filter
	Prompts   Filter
	Transport Transport

	// Fault says why the transport could not be resolved although the file
	// may be right: the plugin did not start or did not answer. The server
	// has no Transport.Config then. [File.ResolveServer] tries again.
	Fault error

	origin *origin
	unsure bool // whether it is enabled could not be found out
}

// Timeouts bound what the host asks of a server.
type Timeouts struct {
	Connect time.Duration // to an initialised session
	Call    time.Duration // one request of a client
	List    time.Duration // fetching all lists
	Health  time.Duration // one check whether the session still responds
	Close   time.Duration // the orderly end of a session
}

// Retry bounds the attempts to get a session back.
type Retry struct {
	Base   time.Duration // the first wait, doubled after each failure
	Max    time.Duration // the longest wait
	Budget int           // failures in a row before the server parks
}

// Revive says how often a parked server is tried on the host's own initiative.
type Revive struct {
	Min time.Duration // the first wait, doubled after each failure
	Max time.Duration // the longest wait
}

// CrashLoop says when a server that starts well and then dies is parked.
type CrashLoop struct {
	Deaths int // more than so many unproven sessions within Window park it
	Window time.Duration
	Proven time.Duration // the age at which a session is proven without a call
}

// Breaker holds the settings of the circuit breaker.
type Breaker struct {
	Threshold int           // consecutive failures that open it
	Cooldown  time.Duration // from opening to the probe
}

// Filter chooses a server's entries by the names that the server uses
// (resources: URIs), and changes what clients see of them. Patterns are those of
// package glob. In an [Endpoint] they speak of the names that clients see at
// /mcp, and nothing is renamed or described.
type Filter struct {
	Allow    []string          // empty: all
	Deny     []string          // wins over Allow
	Rename   map[string]string // original name to the name shown
	Describe map[string]string // original name to the description shown; tools only
}

// Endpoint is a selection of what servers offer, at an address of its own.
type Endpoint struct {
	Name      string
	Servers   []string // names of servers, each once
	Tools     Filter
	Resources Filter
	Prompts   Filter

	at hcl.Range
}

// Where returns the place of the block in the file, as "file:line:column".
func (e Endpoint) Where() string { return where(e.at) }

// Equal reports whether both say the same, wherever they were written.
func (e Endpoint) Equal(o Endpoint) bool {
	e.at, o.at = hcl.Range{}, hcl.Range{}
	return reflect.DeepEqual(e, o)
}

// Transport is the plugin's part of a server.
type Transport struct {
	Kind string

	// Config is the block as a JSON object after the plugin's schema, all
	// attributes present. It holds secrets: only the plugin may see it.
	Config json.RawMessage

	// Display is Config for people: secret values are replaced.
	Display json.RawMessage

	// Sensitive names the attributes that are secret or contain secrets, in
	// alphabetical order.
	Sensitive []string
}

// Where returns the place of the server's block, as "file:line:column".
func (s Server) Where() string {
	if s.origin == nil {
		return ""
	}
	return where(s.origin.block.DefRange)
}

// RangeOf returns the place of a value in the transport block, as
// "file:line:column". The path is that of session.End: strings for attributes
// and keys, ints for indexes. The place is as exact as the file allows: an
// entry of a literal, else the attribute, else the block.
func (s Server) RangeOf(path []any) string {
	if s.origin == nil {
		return ""
	}
	return where(s.origin.locate(path))
}

// Equal reports whether two servers have the same resolved settings, wherever
// and however they were written. A server with a Fault equals nothing.
func (s Server) Equal(o Server) bool {
	if s.Fault != nil || o.Fault != nil {
		return false
	}
	s.origin, o.origin = nil, nil
	return reflect.DeepEqual(s, o)
}
