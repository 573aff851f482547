// Package httpconn is what the transports over HTTP share: a client with the
// user's headers and TLS files, faults classified by mechanism, a reader of
// server-sent events, and checks of the configuration.
//
// Rules that hold for everything here: header values, user information and the
// query of a URL are secrets and appear in no message; whatever a server sends
// is read up to a limit; whether a request can have reached its server is
// learnt from the connection (net/http/httptrace), never from an error's text.
package httpconn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hermes-host/hermes-host/internal/version"
	"github.com/hermes-host/hermes-host/shared"
)

// Settings is the part of a server's configuration that concerns HTTP.
type Settings struct {
	URL     string            // absolute, http or https
	Headers map[string]string // sent with every request to the URL's own host

	CAFile         string // PEM; trusted besides the system's authorities
	ClientCertFile string // PEM; read anew for each handshake, so it may be rotated
	ClientKeyFile  string // PEM

	ConnectTimeout time.Duration // for TCP and for TLS, each; 0: 10 s
	KeepAlive      time.Duration // between TCP keep-alive probes; 0: 15 s

	// DialContext takes the place of TCP in tests.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

// Durations and sizes that nobody has needed to configure.
const (
	defaultConnectTimeout = 10 * time.Second
	defaultKeepAlive      = 15 * time.Second

	// Below the 60 s after which common load balancers drop an idle
	// connection without a word.
	idleTimeout = 45 * time.Second

	maxRedirects = 5
)

// A Client speaks HTTP with one server. Its methods may be called
// concurrently.
type Client struct {
	url     *url.URL
	header  http.Header // the user's, with canonical names
	host    string      // the user's Host header, "" if none
	http    http.Client
	conns   *http.Transport
	secrets *strings.Replacer

	target atomic.Pointer[url.URL] // where a redirect on the same host has led

	// To leave a connection alone that the server is about to close: when
	// the last response was complete, and after how long the server says it
	// closes idle ones ("Keep-Alive: timeout=5"); unix and plain nanoseconds.
	lastUse   atomic.Int64
	idleLimit atomic.Int64
}

// New returns a client. The settings must have passed [Settings.Check] but for
// warnings. The error is a [*shared.EndError]: a file can't be used.
func New(s Settings) (*Client, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, shared.ConfigError("the url is not valid", shared.Attr("url"))
	}
	tlsConfig, err := s.tls()
	if err != nil {
		return nil, err
	}
	c := &Client{url: u, header: http.Header{}}
	var secrets []string
	for name, value := range s.Headers {
		value = strings.TrimSpace(value)
		if strings.EqualFold(name, "Host") {
			c.host = value
			continue
		}
		c.header.Set(name, value)
		secrets = append(secrets, secretsOf(value)...)
	}
	if password, ok := u.User.Password(); ok && password != "" {
		secrets = append(secrets, password, "…")
	}
	c.secrets = strings.NewReplacer(secrets...)

	connect, keepAlive := s.ConnectTimeout, s.KeepAlive
	if connect == 0 {
		connect = defaultConnectTimeout
	}
	if keepAlive == 0 {
		keepAlive = defaultKeepAlive
	}
	dial := s.DialContext
	if dial == nil {
		dial = (&net.Dialer{Timeout: connect, KeepAlive: keepAlive}).DialContext
	}
	c.conns = &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dial,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: connect,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        128,
		MaxIdleConnsPerHost: 128, // as many as there are calls in a burst
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true, // decompression costs more than a local network
		// A dead HTTP/2 connection would take every call with it.
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: keepAlive, PingTimeout: keepAlive},
		MaxResponseHeaderBytes: 256 << 10,
		WriteBufferSize:        16 << 10,
		ReadBufferSize:         16 << 10,
	}
	// Load balancers keep a session on one server with a cookie.
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	c.http = http.Client{Transport: c.conns, Jar: jar, CheckRedirect: c.checkRedirect}
	return c, nil
}

// secretsOf returns pairs for a replacer that hide a header's value, and the
// part of it after an authentication scheme.
func secretsOf(value string) []string {
	var pairs []string
	if _, token, ok := strings.Cut(value, " "); ok && len(token) >= 4 {
		pairs = append(pairs, token, "…")
	}
	if len(value) >= 4 {
		pairs = append(pairs, value, "…")
	}
	return pairs
}

// URL returns the configured URL.
func (c *Client) URL() *url.URL { return c.url }

// Place names the server for people: the URL without user information, query
// and fragment.
func (c *Client) Place() string { return place(c.url) }

func place(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// Redact hides the user's header values in text that came from elsewhere.
func (c *Client) Redact(text string) string { return c.secrets.Replace(text) }

// Do sends one request and returns its response, whose body the caller
// closes. The error is a *Fault unless ctx has ended, and then ctx's. A nil
// target means the configured URL.
func (c *Client) Do(ctx context.Context, method string, target *url.URL, header http.Header, body []byte) (*http.Response, error) {
	configured := target == nil
	if configured {
		if target = c.target.Load(); target == nil {
			target = c.url
		}
	}
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	var t trace
	req, err := http.NewRequestWithContext(t.watch(ctx), method, "", reader)
	if err != nil {
		return nil, &Fault{Message: "making a request: " + unwrapURL(err).Error(), Delivered: deliveredNo}
	}
	req.URL = target // as it is, instead of parsed anew for each request
	own := sameHost(target, c.url)
	if own {
		for name, values := range c.header {
			req.Header[name] = values
		}
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if req.Header["User-Agent"] == nil {
		req.Header["User-Agent"] = []string{userAgent}
	}
	if own && c.host != "" {
		req.Host = c.host
	}
	c.avoidStale()
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, c.fault(unwrapURL(err), &t)
	}
	if configured && resp.Request.URL != target && sameHost(resp.Request.URL, c.url) && resp.StatusCode < 300 {
		c.target.Store(resp.Request.URL)
	}
	c.noteKeepAlive(resp.Header.Get("Keep-Alive"))
	return resp, nil
}

var userAgent = "hermes-host/" + version.String()

// Done tells the client that a response has been read to its end; the
// connection is idle from now on.
func (c *Client) Done() { c.lastUse.Store(time.Now().UnixNano()) }

// Close closes the idle connections. Requests under way are the callers' to
// cancel.
func (c *Client) Close() { c.conns.CloseIdleConnections() }

// checkRedirect decides on each redirect. A POST that would become a GET is
// not followed: the caller sees the 3xx answer. To another host, or from https
// down to http, the user's headers don't go along.
func (c *Client) checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects || req.Method != via[0].Method {
		return http.ErrUseLastResponse
	}
	if !sameHost(req.URL, c.url) {
		for name := range c.header {
			req.Header.Del(name)
		}
		req.Host = ""
	}
	return nil
}

// sameHost reports whether what may be told to b may be told to a.
func sameHost(a, b *url.URL) bool {
	return strings.EqualFold(a.Hostname(), b.Hostname()) &&
		(a.Scheme == b.Scheme && port(a) == port(b) || a.Scheme == "https" && b.Scheme == "http")
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

// SameOrigin reports whether a and b have the same scheme, host and port.
func SameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

// noteKeepAlive remembers the idle time that a server grants its connections.
func (c *Client) noteKeepAlive(value string) {
	if value == "" {
		return
	}
	for part := range strings.SplitSeq(value, ",") {
		name, number, _ := strings.Cut(strings.TrimSpace(part), "=")
		if !strings.EqualFold(name, "timeout") {
			continue
		}
		if seconds, err := strconv.Atoi(number); err == nil && seconds > 0 && seconds < 3600 {
			c.idleLimit.Store(int64(time.Duration(seconds) * time.Second))
		}
	}
}

// avoidStale drops the idle connections if the server is about to close them,
// or just has: a request that crosses with the close fails, and nobody can
// tell whether it was delivered.
func (c *Client) avoidStale() {
	limit := c.idleLimit.Load()
	if limit == 0 {
		return
	}
	margin := min(time.Duration(limit)/4, time.Second)
	if time.Now().UnixNano()-c.lastUse.Load() > limit-int64(margin) {
		c.conns.CloseIdleConnections()
	}
}

// unwrapURL takes the error out of a *url.Error, whose text has the whole URL.
func unwrapURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// RedirectMessage says what to do about a 3xx answer.
func RedirectMessage(resp *http.Response) string {
	to := "elsewhere"
	if u, err := resp.Location(); err == nil {
		to = "to " + place(u)
	}
	return fmt.Sprintf("answered %d and redirects %s; put that URL into the configuration", resp.StatusCode, to)
}
