package gateway

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestGuard(t *testing.T) {
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7717}
	outside := &net.TCPAddr{IP: net.IPv4(192, 168, 1, 5), Port: 7717}
	named := newGuard([]string{"Mcp.example.com"}, []string{"https://app.example.com/"})
	open := newGuard([]string{"*"}, []string{"*"})
	for _, c := range []struct {
		name         string
		g            guard
		local        net.Addr
		host, origin string
		ok           bool
	}{
		{"localhost", named, loopback, "localhost", "", true},
		{"with port", named, loopback, "LOCALHOST:1234", "", true},
		{"address", named, loopback, "127.0.0.1:7717", "", true},
		{"another loopback address", named, loopback, "127.0.0.9", "", true},
		{"IPv6", named, loopback, "[::1]:7717", "", true},
		{"IPv6 without port", named, loopback, "[::1]", "", true},
		{"rebound name", named, loopback, "evil.example.com:7717", "", false},
		{"name that looks local", named, loopback, "localhost.evil.com", "", false},
		{"address that is not this one", named, loopback, "192.168.1.5:7717", "", false},
		{"no host", named, loopback, "", "", false},
		{"allowed host", named, loopback, "mcp.example.com:443", "", true},
		{"address, listening outside", named, outside, "192.168.1.5:7717", "", true},
		{"rebound name, listening outside", named, outside, "evil.example.com", "", false},
		{"localhost, listening outside", named, outside, "localhost:7717", "", true},
		{"local origin", named, loopback, "localhost", "http://127.0.0.1:8080", true},
		{"allowed origin", named, loopback, "localhost", "https://app.example.com", true},
		{"allowed origin with another scheme", named, loopback, "localhost", "http://app.example.com", false},
		{"foreign origin", named, loopback, "localhost", "https://evil.example.com", false},
		{"origin that looks local", named, loopback, "localhost", "https://localhost.evil.com", false},
		{"origin without host", named, loopback, "localhost", "null", false},
		{"everything", open, loopback, "evil.example.com", "https://evil.example.com", true},
	} {
		r := httptest.NewRequest("POST", "/mcp", nil)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, c.local))
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if reason := c.g.refuse(r); (reason == "") != c.ok {
			t.Errorf("%s: %q", c.name, reason)
		}
	}
}
