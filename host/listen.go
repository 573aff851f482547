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

	"github.com/hermes-host/hermes-host/host/config"
	"github.com/hermes-host/hermes-host/host/gateway"
	"github.com/hermes-host/hermes-host/host/supervisor"
)

// listen serves the gateway on l until ctx ends or the listener fails, and
// then drains it.
func (h *Host) listen(ctx context.Context, l net.Listener, cfg *config.Config, g *gateway.Gateway) error {
	mux := http.NewServeMux()
	mux.Handle("/", authenticate(cfg.Listen.Token, g))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", h.readyz)
	server := g.Server()
	server.Handler = mux
	h.log.Info("serving MCP", "url", "http://"+l.Addr().String()+"/mcp", "servers", len(cfg.Servers))
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

// readyz says whether every enabled server has come up or been given up, so
// that the lists are as good as they get without a change in the world.
func (h *Host) readyz(w http.ResponseWriter, _ *http.Request) {
	var waiting []string
	for name, s := range h.Status() {
		if s.State == supervisor.Connecting {
			waiting = append(waiting, name)
		}
	}
	if len(waiting) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, "connecting: "+strings.Join(waiting, ", "))
		return
	}
	fmt.Fprintln(w, "ready")
}

// authenticate asks for the bearer token (RFC 6750) if one is configured.
func authenticate(token string, next http.Handler) http.Handler {
	if token == "" {
		return next
	}
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(given))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="hermes-host"`)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"this host wants the bearer token of its listen block in the Authorization header"}}`))
			return
		}
		next.ServeHTTP(w, r)
	})
}
