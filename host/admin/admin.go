// Package admin is the operator's side of a running host: JSON over HTTP on a
// unix socket that only the user who runs the host can open.
//
// [Listen] makes the socket, [Serve] answers on it by asking a [Host], and a
// [Client], which [Find] connects to the right one, asks from another process.
//
//	GET  /v1/host                       which host this is
//	GET  /v1/status                     a Status
//	GET  /v1/status?watch=1             a Status per line, whenever it changes
//	GET  /v1/events?follow=1&after=n    an Event per line
//	GET  /v1/logs?follow=1&after=n&server=x   a Line per line
//	POST /v1/reconnect                  {"servers": [...]}; none: all
//	POST /v1/park                       {"server": "x"}
//	POST /v1/reload                     {"dryRun": true, "file": "/a/b.hcl"}; a
//	                                    file goes with dryRun alone
//	GET  /v1/mcp                        Upgrade: the connection becomes an MCP
//	                                    client's standard input and output
//
// A refusal is an [Error]. Nothing that is sent here holds a secret of the
// configuration.
//
// The package knows nothing of supervisors: the host translates.
package admin

import (
	"context"
	"io"
)

// A Host is what an operator can see and do. Its methods may be called
// concurrently, and return at once or are bounded by their context.
type Host interface {
	// Info says which host this is.
	Info() Info
	// Status returns the state of everything.
	Status() Status
	// Events and Logs return the latest of what has happened.
	Events() *Feed[Event]
	Logs() *Feed[Line]
	// Reconnect asks for new sessions of some servers, of all that are enabled
	// if none is named. It returns their names, or an *Error and has done
	// nothing.
	Reconnect(by string, servers ...string) ([]string, error)
	// Park ends the session of a server until somebody reconnects it.
	Park(by, server string) error
	// Reload reads the configuration again and applies what is different, or
	// with dryRun only says what that is. An *Error says why it was refused.
	Reload(ctx context.Context, by string, dryRun bool) (Changes, error)
	// Preview says what Reload would change if the configuration were what is in
	// another file, whose path is absolute. It applies nothing.
	Preview(ctx context.Context, path string) (Changes, error)
	// Joinable returns nil if Join would serve at present, else an *Error.
	Joinable() error
	// Join serves an MCP client over a connection until either ends.
	Join(ctx context.Context, conn io.ReadWriteCloser) error
}

// An Error is a refusal that a program can act on.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	// Known are all names of servers, and Near those that an unknown one may
	// have meant.
	Known []string `json:"known,omitempty"`
	Near  []string `json:"near,omitempty"`
	// Diagnostics are what is wrong with the configuration, one line each, and
	// Text the same for people.
	Diagnostics []string `json:"diagnostics,omitempty"`
	Text        string   `json:"text,omitempty"`
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Code says what kind of refusal an Error is.
type Code string

const (
	UnknownServer Code = "unknown_server" // no server has that name
	Disabled      Code = "disabled"       // the configuration disables the server
	Refused       Code = "refused"        // the configuration is wrong
	Unsupported   Code = "unsupported"    // this host can't do that
	Stopping      Code = "stopping"       // the host is ending
	BadRequest    Code = "bad_request"    // the request makes no sense
	Failed        Code = "failed"         // anything else
)
