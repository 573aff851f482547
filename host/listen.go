package host

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/hermes-host/hermes-host/host/gateway"
)

// listen serves the gateway on l until ctx ends or the listener fails, and
// then drains it.
func (h *Host) listen(ctx context.Context, l net.Listener, g *gateway.Gateway) error {
	mux := http.NewServeMux()
	mux.Handle("/", g.CORS(h.authenticate(g, exposed(l))))
	mux.HandleFunc("GET /healthz", guarded(g, h.healthz))
	mux.HandleFunc("GET /readyz", guarded(g, h.readyz))
	server := g.Server()
	server.Handler = mux
	h.log.Info("serving MCP", "url", "http://"+l.Addr().String()+"/mcp", "servers", len(h.catalog.Servers()))
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		h.drain(g)
		return fmt.Errorf("serving clients: %w", err)
	case <-ctx.Done():
	}
	h.drain(g)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if server.Shutdown(bounded) != nil {
		_ = server.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// guarded keeps details (names and states of servers) from web pages that have
// got hold of the address by DNS rebinding: they hear the status code alone.
// Probes often come with a Host of their own, so that must not be refused.
func guarded(g *gateway.Gateway, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !g.Trusts(r) {
			w = codeOnly{w}
		}
		next(w, r)
	}
}

// codeOnly drops a response's body.
type codeOnly struct{ http.ResponseWriter }

func (codeOnly) Write(p []byte) (int, error) { return len(p), nil }

// exposed reports whether others than this machine can reach l.
func exposed(l net.Listener) bool {
	tcp, ok := l.Addr().(*net.TCPAddr)
	return !ok || !tcp.IP.IsLoopback()
}

// authenticate asks for the bearer token (RFC 6750) if one is configured. A
// reload may change it, and may take it away; where others can reach the
// address, nobody is let in without one.
func (h *Host) authenticate(next http.Handler, exposed bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.RLock()
		token := h.cfg.Listen.Token
		h.mu.RUnlock()
		if token == "" && !exposed {
			next.ServeHTTP(w, r)
			return
		}
		want := sha256.Sum256([]byte(token))
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(given))
		if token == "" || !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="hermes-host"`)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"this host wants the bearer token of its listen block in the Authorization header"}}`))
			return
		}
		next.ServeHTTP(w, r)
	})
}
