package supervisor

import (
	"errors"
	"fmt"
	"time"

	"github.com/hermes-host/hermes-host/host/session"
)

// The errors of Call. Their texts are written for a model that has called a
// tool: which server, what happened, what to do. A caller that gave up gets the
// cause of its own context instead.

// A ReconnectingError says that there was no session. Nothing was sent, or
// nothing that the server can have acted on.
type ReconnectingError struct {
	Server  string
	State   State         // Connecting, Reconnecting or Parked
	RetryIn time.Duration // to the next attempt; 0 if one is under way
	Cause   error         // why the last session or attempt failed; nil if unknown
}

func (e *ReconnectingError) Error() string {
	verb := "is reconnecting"
	switch e.State {
	case Connecting:
		verb = "is starting"
	case Parked:
		verb = "is down"
	}
	return fmt.Sprintf("server %q %s%s; the request was not sent; try again in %s", e.Server, verb, because(e.Cause), in(e.RetryIn))
}

func (e *ReconnectingError) Unwrap() error { return e.Cause }

// An OpenError says that the server's circuit breaker refused the call.
// Nothing was sent.
type OpenError struct {
	Server  string
	RetryIn time.Duration // 0 if another call is finding out
	Cause   error         // the latest failure; nil if unknown
}

func (e *OpenError) Error() string {
	return fmt.Sprintf("server %q does not work at present%s; the request was not sent; try again in %s", e.Server, because(e.Cause), in(e.RetryIn))
}

func (e *OpenError) Unwrap() error { return e.Cause }

// An OutcomeUnknownError says that the request was sent, or may have been, and
// no answer came.
type OutcomeUnknownError struct {
	Server     string
	Method     string
	Idempotent bool // so CallOptions said
	Cause      error
}

func (e *OutcomeUnknownError) Error() string {
	what := "it may have been carried out; check before trying again"
	if e.Idempotent {
		what = "it is safe to try again"
	}
	return fmt.Sprintf("server %q gave no answer to %s%s; the outcome is unknown: %s", e.Server, e.Method, because(e.Cause), what)
}

func (e *OutcomeUnknownError) Unwrap() error { return e.Cause }

// A TimeoutError says that the host's limit for calls has passed. The server
// was told that the request is cancelled; whether it was carried out is
// unknown.
type TimeoutError struct {
	Server string
	Method string
	After  time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("server %q did not answer %s within %s and was told to cancel it; the outcome is unknown: it may have been carried out",
		e.Server, e.Method, e.After)
}

// Timeout reports true, as errors of package net do.
func (e *TimeoutError) Timeout() bool { return true }

// An AuthNeededError says that the server wants an authorization that only a
// person can give.
type AuthNeededError struct {
	Server string
	Cause  error
}

func (e *AuthNeededError) Error() string {
	return fmt.Sprintf("server %q needs authorization%s; a person must authorize it, then try again", e.Server, because(e.Cause))
}

func (e *AuthNeededError) Unwrap() error { return e.Cause }

// An UnavailableError says that the server stays away until a person does
// something. Nothing was sent.
type UnavailableError struct {
	Server string
	State  State    // Parked, Stopped or Disabled
	Parked ParkKind // if State is Parked
	Reason string
}

func (e *UnavailableError) Error() string {
	switch {
	case e.State == Disabled:
		return fmt.Sprintf("server %q is disabled in the host's configuration", e.Server)
	case e.State == Stopped:
		return fmt.Sprintf("server %q is shut down", e.Server)
	case e.Parked == Misconfigured:
		return fmt.Sprintf("server %q cannot work as it is configured: %s; its configuration must be changed", e.Server, e.Reason)
	}
	return fmt.Sprintf("server %q is out of service (%s); an operator must reconnect it", e.Server, e.Reason)
}

// A RefusedError says that the message itself could not be carried: it, or its
// answer, is too large or malformed. The server is well.
type RefusedError struct {
	Server string
	Method string
	Cause  *session.Failure
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("server %q: %s failed: %s", e.Server, e.Method, e.Cause)
}

func (e *RefusedError) Unwrap() error { return e.Cause }

func because(err error) string {
	if err == nil {
		return ""
	}
	return " (" + err.Error() + ")"
}

func in(d time.Duration) string {
	if d <= 0 {
		return "a few seconds"
	}
	return max(time.Second, d.Round(time.Second)).String()
}

// endOf returns the End behind an error, or makes one that says what was being
// done.
func endOf(doing string, err error) *session.End {
	if end, ok := errors.AsType[*session.End](err); ok {
		if end.Message == "" {
			end = &session.End{Class: end.Class, Retryable: end.Retryable, Path: end.Path}
			end.Message = doing + " failed without a reason (" + end.Class.String() + ")"
		}
		return end
	}
	end := &session.End{Class: session.Gone, Message: doing + ": " + err.Error(), Retryable: true}
	if f, ok := errors.AsType[*session.Failure](err); ok && f.Reason == session.NeedsAuth {
		end.Class, end.Retryable = session.Auth, false
	}
	return end
}
