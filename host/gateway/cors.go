package gateway

import (
	"net/http"

	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// Web pages of the accepted origins (the Inspector's user interface is one) may
// use the gateway straight from a browser, which asks first whether they may
// (the Fetch standard, CORS protocol). No cookies are involved: what a page
// needs to know it sends in headers.
const (
	corsMethods = "GET, POST, DELETE, OPTIONS"
	corsExposed = headerSession + ", " + headerVersion + ", WWW-Authenticate, Retry-After"
	corsMaxAge  = "3600" // seconds that a browser may remember the answer
	// corsHeaders are allowed if the browser does not say what it wants.
	corsHeaders = "Accept, Authorization, Content-Type, " + headerEventID + ", " + headerMethod + ", " + headerName + ", " + headerSession + ", " + headerVersion
)

// CORS wraps a handler in front of the gateway that may answer by itself, such
// as one that wants an authorization: browsers ask without one, and show pages
// no answer without the fields that say they may see it.
func (g *Gateway) CORS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.cors(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

// Trusts reports whether a request's Host and Origin are accepted, for handlers
// beside the gateway that have details to show.
func (g *Gateway) Trusts(r *http.Request) bool { return g.guard.refuse(r) == "" }

// cors checks a request's Host and Origin. It reports false if the request is
// answered: with a refusal, or since it was a browser's question.
func (g *Gateway) cors(w http.ResponseWriter, r *http.Request) bool {
	if reason := g.guard.refuse(r); reason != "" {
		writeError(w, http.StatusForbidden, nil, jsonrpc.Errorf(codeServer, "%s", reason))
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", corsExposed)
	h.Set("Vary", "Origin")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return true
	}
	h.Set("Access-Control-Allow-Methods", corsMethods)
	headers := r.Header.Get("Access-Control-Request-Headers") // Mcp-Param-* can be any
	if headers == "" {
		headers = corsHeaders
	}
	h.Set("Access-Control-Allow-Headers", headers)
	h.Set("Access-Control-Max-Age", corsMaxAge)
	h.Set("Vary", "Origin, Access-Control-Request-Headers")
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		h.Set("Access-Control-Allow-Private-Network", "true") // Private Network Access, for hosts on this machine
	}
	w.WriteHeader(http.StatusNoContent)
	return false
}
