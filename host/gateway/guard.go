package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// guard decides which Host and Origin headers are accepted, against DNS
// rebinding: a web page whose name an attacker points at this machine (MCP
// 2025-11-25, transports, security warning).
type guard struct {
	hosts, origins       map[string]bool
	anyHost, everyOrigin bool
}

func newGuard(hosts, origins []string) guard {
	g := guard{hosts: make(map[string]bool), origins: make(map[string]bool)}
	for _, h := range hosts {
		g.hosts[strings.ToLower(h)] = true
		g.anyHost = g.anyHost || h == "*"
	}
	for _, o := range origins {
		g.origins[strings.ToLower(strings.TrimSuffix(o, "/"))] = true
		g.everyOrigin = g.everyOrigin || o == "*"
	}
	return g
}

// refuse returns why a request is forbidden, "" if it is not.
func (g *guard) refuse(r *http.Request) string {
	if !g.anyHost && !g.host(r) {
		return "forbidden Host header; only loopback names and the configured allowed hosts are accepted"
	}
	if origin := r.Header["Origin"]; len(origin) > 0 && !g.everyOrigin && !g.origin(origin) {
		return "forbidden Origin header; only loopback origins and the configured allowed origins are accepted"
	}
	return ""
}

func (g *guard) host(r *http.Request) bool {
	host := hostname(r.Host)
	if isLoopback(host) {
		return true
	}
	if len(g.hosts) > 0 && (g.hosts[strings.ToLower(r.Host)] || g.hosts[strings.ToLower(host)]) {
		return true
	}
	// Where the listener is reachable from elsewhere, a literal address is a
	// legitimate name for it, and rebinding needs a real name.
	if addr := localAddr(r); addr != nil && !isLoopback(hostname(addr.String())) {
		_, err := netip.ParseAddr(host)
		return err == nil
	}
	return false
}

func (g *guard) origin(values []string) bool {
	for _, o := range values {
		if g.origins[strings.ToLower(o)] {
			continue
		}
		u, err := url.Parse(o)
		if err != nil || u.Host == "" || !isLoopback(u.Hostname()) {
			return false
		}
	}
	return true
}

// hostname cuts the port and the brackets of a Host header.
func hostname(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
}

func isLoopback(host string) bool {
	if host == "127.0.0.1" || strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
