package httpconn

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"unicode"

	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

const (
	deliveredNo      = transportpb.TransportError_DELIVERED_NO
	deliveredUnknown = transportpb.TransportError_DELIVERED_UNKNOWN
)

// A Fault is a request that got no HTTP response.
type Fault struct {
	Message   string // for people; no secrets
	Delivered transportpb.TransportError_Delivered

	// NoConn says that there was no connection to send the request on: name
	// resolution, TCP or TLS failed.
	NoConn bool

	// Trust says that the server's certificate is not trusted or not for
	// this host, which no retry mends.
	Trust bool
}

// Error returns the message.
func (f *Fault) Error() string { return f.Message }

// WriteError returns the fault as the failure of one message.
func (f *Fault) WriteError() *shared.WriteError {
	return &shared.WriteError{
		Reason:    transportpb.TransportError_REASON_CONNECTION,
		Delivered: f.Delivered,
		Message:   f.Message,
	}
}

// EndError returns the fault as what keeps a session from beginning.
func (f *Fault) EndError() *shared.EndError {
	if f.Trust {
		return &shared.EndError{
			Class:   transportpb.SessionEnd_CLASS_CONFIG,
			Message: f.Message + "; name the authority that signed its certificate in ca_file",
			Path:    []*transportpb.PathStep{shared.Attr("ca_file")},
		}
	}
	return &shared.EndError{Class: transportpb.SessionEnd_CLASS_TRANSPORT, Message: f.Message, Retryable: true}
}

// fault classifies an error of the HTTP client.
func (c *Client) fault(err error, t *trace) *Fault {
	f := &Fault{Delivered: t.delivered(), NoConn: t.state.Load()&gotConn == 0}
	reason := err.Error()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		reason = "the server closed the connection" // "EOF" tells nobody anything
	}
	if f.NoConn {
		_, authority := errors.AsType[x509.UnknownAuthorityError](err)
		_, host := errors.AsType[x509.HostnameError](err)
		f.Trust = authority || host
		f.Message = fmt.Sprintf("connecting to %s: %s", c.Place(), reason)
	} else {
		f.Message = fmt.Sprintf("no answer from %s: %s", c.Place(), reason)
	}
	f.Message = c.Redact(f.Message)
	return f
}

// trace follows one request. Its hooks run in goroutines of net/http.
type trace struct{ state atomic.Uint32 }

const (
	gotConn      = 1 << iota // a connection was there
	wroteHeaders             // the header was handed to the connection
	writeFailed              // header and body were not written whole
)

// watch returns a context that reports a request's progress to t. The state
// is that of the last attempt: net/http repeats a request on a fresh
// connection if it could write none of it on an old one.
func (t *trace) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { t.state.Store(0) },
		GotConn:      func(httptrace.GotConnInfo) { t.state.Or(gotConn) },
		WroteHeaders: func() { t.state.Or(wroteHeaders) },
		WroteRequest: func(i httptrace.WroteRequestInfo) {
			if i.Err != nil {
				t.state.Or(writeFailed)
			}
		},
	})
}

// delivered says whether the server can have acted on the request. A server
// reads the length in the header and acts on nothing less than the whole body.
func (t *trace) delivered() transportpb.TransportError_Delivered {
	s := t.state.Load()
	if s&wroteHeaders == 0 || s&writeFailed != 0 {
		return deliveredNo
	}
	return deliveredUnknown
}

// StatusMessage says what an answer's status was, with the first line of its
// text, and when to come back if the server says so.
func (c *Client) StatusMessage(resp *http.Response, body []byte) string {
	text := http.StatusText(resp.StatusCode)
	message := fmt.Sprintf("%s answered %d %s", c.Place(), resp.StatusCode, text)
	if line := c.firstLine(resp, body); line != "" && !strings.EqualFold(line, text) {
		message += ": " + line
	}
	if wait := resp.Header.Get("Retry-After"); wait != "" && len(wait) <= 40 {
		message += fmt.Sprintf(" (retry after %s)", c.Redact(clean(wait)))
	}
	return message
}

// firstLine returns the first line of a plain text; markup tells people less
// than the status.
func (c *Client) firstLine(resp *http.Response, body []byte) string {
	if strings.Contains(resp.Header.Get("Content-Type"), "html") {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(body[:min(len(body), 4096)])), "\n")
	line = c.Redact(clean(line))
	if runes := []rune(line); len(runes) > 200 {
		line = string(runes[:200]) + "…"
	}
	return line
}

// clean drops what could upset a terminal.
func clean(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text))
}

// AuthMessage says what authorization a server wants, from its
// WWW-Authenticate header (RFC 9110 section 11.6.1, RFC 6750 section 3): the
// scheme and the parameters that help a person. The challenge's other
// parameters, such as a nonce, are left out.
func (c *Client) AuthMessage(resp *http.Response) string {
	message := fmt.Sprintf("%s answered %d %s: ", c.Place(), resp.StatusCode, http.StatusText(resp.StatusCode))
	if resp.StatusCode == http.StatusUnauthorized {
		message += "it wants an authorization"
		if c.header.Get("Authorization") != "" {
			message += " other than the one configured"
		}
	} else {
		message += "the authorization does not suffice"
	}
	challenge := resp.Header.Get("WWW-Authenticate")
	scheme, rest, _ := strings.Cut(challenge, " ")
	if scheme = clean(scheme); scheme != "" && len(scheme) <= 32 {
		message += ", scheme " + scheme
	}
	params := parameters(rest)
	for _, name := range []string{"realm", "error", "error_description", "scope", "resource_metadata"} {
		if value := clean(params[name]); value != "" {
			message += fmt.Sprintf(", %s %q", name, c.Redact(value[:min(len(value), 200)]))
		}
	}
	return message
}

// parameters reads the auth-params of a challenge; malformed ones are skipped.
func parameters(text string) map[string]string {
	params := map[string]string{}
	for text != "" && len(params) < 32 {
		name, rest, ok := strings.Cut(text, "=")
		if !ok {
			break
		}
		name = strings.ToLower(strings.Trim(name, " ,\t"))
		rest = strings.TrimLeft(rest, " \t")
		var value string
		if strings.HasPrefix(rest, `"`) {
			value, text = quoted(rest[1:])
		} else {
			value, text, _ = strings.Cut(rest, ",")
		}
		params[name] = value
	}
	return params
}

// quoted reads a quoted-string whose opening quote is gone.
func quoted(text string) (value, rest string) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			return b.String(), text[i+1:]
		case '\\':
			if i++; i < len(text) {
				b.WriteByte(text[i])
			}
		default:
			b.WriteByte(text[i])
		}
	}
	return b.String(), ""
}

// Oversize is the failure of a request whose answer is over the limit.
func Oversize(place string, limit int) *shared.WriteError {
	return &shared.WriteError{
		Reason:    transportpb.TransportError_REASON_OVERSIZE,
		Delivered: deliveredUnknown,
		Message:   fmt.Sprintf("%s sent an answer over the limit of %d bytes", place, limit),
	}
}
