// Package shared is the kit for transport plugins of hermes-host.
//
// A plugin is a program that holds MCP sessions over one kind of transport. It
// describes itself with a [Plugin] and calls [Serve] in main; the kit talks to
// the host (transport.proto is that contract), performs the MCP handshake,
// matches answers to requests, and relays everything else as the bytes that
// it was. What is left to the plugin is a [Conn], or an mcp.Transport of the
// MCP SDK.
//
//	type config struct {
//		URL string `hcl:"url" doc:"Where the server listens."`
//	}
//
//	func main() {
//		shared.Serve(shared.Plugin[config]{
//			Kind:      "websocket",
//			Version:   "1.0.0",
//			Transport: connect, // func(context.Context, shared.Session, config) (mcp.Transport, error)
//		})
//	}
//
// See docs/plugin-author-guide.md, and package plugintest for the acceptance
// suite.
package shared

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hermes-host/hermes-host/internal/pluginrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// MaxMessageBytes is the largest MCP message that a session carries, and the
// limit of sessions for which the host asks no smaller one.
const MaxMessageBytes = pluginrpc.MaxPayload

// FeatureNoOrphans is a feature of plugins from below which no process gets
// away while they run: they start none, or are a home for those that lose their
// parent (PR_SET_CHILD_SUBREAPER on Linux). If all plugins of a host have it,
// the host knows what a killed plugin has left behind, and kills that.
const FeatureNoOrphans = pluginrpc.FeatureNoOrphans

// A Plugin describes a transport plugin. C is the struct that a server's
// transport block decodes into; its tags are the schema of the block:
//
//	hcl:"name"           a required attribute
//	hcl:"name,optional"  one that may be absent
//	default:"…"          the value when absent: text for a string, else JSON
//	sensitive:"true"     never shown in logs, diagnostics or status
//	doc:"…"              one or two sentences for people
//
// Fields are strings, booleans, integers, floats, [time.Duration] (written as
// "1m30s"), slices and string-keyed maps of those, structs with the same tags
// (objects), and pointers where null should be told from the zero value.
// Exported fields without an hcl tag are refused.
type Plugin[C any] struct {
	// Kind is the label of the transport block: "stdio".
	Kind string

	// Version is the plugin's own, for people.
	Version string

	// Features are abilities beyond the first version of the contract.
	Features []string

	// MultiSession says that one process may hold the sessions of several
	// servers.
	MultiSession bool

	// Processors is how many processors the process may use at once; 0 means
	// 1. Relaying needs no more: messages wait for other processes, and a
	// second processor is mostly woken in vain, which costs those the time. An
	// environment variable GOMAXPROCS overrides it.
	Processors int

	// Discover says how the MCP handshake begins.
	Discover Discover

	// Validate checks a configuration beyond what its type can say. It starts
	// nothing and connects to nothing. Nil accepts everything.
	Validate func(C) []Diagnostic

	// Dial connects to a server. Its context lives as long as the session: it
	// ends when the host gives up on the session, orderly or not. An
	// [*EndError] says why there is no connection; any other error counts as
	// one that is worth retrying.
	//
	// Exactly one of Dial and Transport is set.
	Dial func(context.Context, Session, C) (Conn, error)

	// Transport is Dial for those who have a transport of the MCP SDK; see
	// [Adapt].
	Transport func(context.Context, Session, C) (mcp.Transport, error)
}

// Discover says whether and when a handshake tries server/discover, with which
// the stateless sessions of protocol 2026-07-28 begin (SEP-2575), and when
// initialize, with which all earlier ones do.
type Discover int

const (
	// DiscoverFallback begins with initialize. If the server refuses that as
	// a request that it does not know or of a version that it does not
	// speak, the connection is closed and server/discover is tried on a new
	// one. If it does not answer, server/discover follows on the same
	// connection two seconds before the host gives up, or when a quarter of
	// the time is left, if that is less. It is right where a connection has
	// state, as pipes do: some servers refuse initialize, hang or die after a
	// server/discover. If the host asks for 2026-07-28 by name,
	// server/discover comes first, and initialize on a new connection.
	DiscoverFallback Discover = iota

	// DiscoverFirst begins with server/discover and goes on with initialize
	// on the same connection if the server answers with any error, or on a
	// new one if the connection broke or no answer came within
	// five seconds. It is right where each request stands alone, as
	// over HTTP.
	DiscoverFirst

	// DiscoverNever knows initialize only.
	DiscoverNever
)

// A Diagnostic is a finding about a server's configuration.
type Diagnostic struct {
	// Warning says that the configuration works nevertheless.
	Warning bool

	// Summary is a few words: "Invalid URL".
	Summary string

	// Detail is a sentence or two on what is wrong and what to do. Never a
	// secret.
	Detail string

	// Path leads from the transport block to the value at fault: an [Attr],
	// then what is needed of [Attr], [Key] and [Index]. Empty speaks of the
	// block as a whole.
	Path []*transportpb.PathStep
}

// Path makes the way to a value of its steps.
func Path(steps ...*transportpb.PathStep) []*transportpb.PathStep { return steps }

// Attr is the step to an attribute of the block or of an object.
func Attr(name string) *transportpb.PathStep {
	return &transportpb.PathStep{Step: &transportpb.PathStep_Attribute{Attribute: name}}
}

// Key is the step to an element of a map.
func Key(key string) *transportpb.PathStep {
	return &transportpb.PathStep{Step: &transportpb.PathStep_Key{Key: key}}
}

// Index is the step to an element of a list, from 0.
func Index(i int) *transportpb.PathStep {
	return &transportpb.PathStep{Step: &transportpb.PathStep_Index{Index: int64(i)}}
}

func (d Diagnostic) proto() *transportpb.Diagnostic {
	severity := transportpb.Diagnostic_SEVERITY_ERROR
	if d.Warning {
		severity = transportpb.Diagnostic_SEVERITY_WARNING
	}
	return &transportpb.Diagnostic{Severity: severity, Summary: d.Summary, Detail: d.Detail, Path: d.Path}
}

// ConfigError is an [EndError] about the configuration: retrying is useless
// until a person has changed it.
func ConfigError(message string, path ...*transportpb.PathStep) *EndError {
	return &EndError{Class: transportpb.SessionEnd_CLASS_CONFIG, Message: message, Path: path}
}
