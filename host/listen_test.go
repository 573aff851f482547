package host

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hermes-host/hermes-host/host/config"
	"github.com/hermes-host/hermes-host/host/gateway"
	"github.com/hermes-host/hermes-host/host/relay"
)

// An address that others can reach needs a token, whoever chose the address.
func TestExposedAddressNeedsToken(t *testing.T) {
	file, diags := config.Parse(nil, "empty.hcl", config.Options{})
	if file == nil {
		t.Fatal(diags)
	}
	h, err := New(file, Settings{Listen: "0.0.0.0:0", RunDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "set a token") {
		t.Fatalf("Run returned %v", err)
	}
}

// A reload that takes the token away must not open what others can reach.
func TestAuthenticate(t *testing.T) {
	for _, tt := range []struct {
		token, header string
		exposed       bool
		status        int
	}{
		{"", "", false, http.StatusOK},
		{"", "", true, http.StatusUnauthorized},
		{"", "Bearer ", true, http.StatusUnauthorized},
		{"secret", "", false, http.StatusUnauthorized},
		{"secret", "Bearer other", true, http.StatusUnauthorized},
		{"secret", "Basic secret", true, http.StatusUnauthorized},
		{"secret", "bearer secret", true, http.StatusOK},
	} {
		h := &Host{cfg: &config.Config{Listen: config.Listen{Token: tt.token}}}
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/mcp", nil)
		if tt.header != "" {
			r.Header.Set("Authorization", tt.header)
		}
		h.authenticate(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), tt.exposed).ServeHTTP(w, r)
		if w.Code != tt.status {
			t.Errorf("token %q, header %q, exposed %v: status %d, want %d", tt.token, tt.header, tt.exposed, w.Code, tt.status)
		}
	}
}

// Who comes with a foreign Host learns whether the host is well, and no more.
func TestHealthByAnotherName(t *testing.T) {
	g := gateway.New(gateway.Config{Endpoints: func(string) (relay.Endpoint, bool) { return nil, false }})
	defer func() { _ = g.Shutdown(t.Context()) }()
	h := guarded(g, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("names"))
	})
	for name, want := range map[string]string{"127.0.0.1:7717": "names", "evil.example": ""} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/healthz?verbose", nil)
		r.Host = name
		h(w, r)
		if w.Code != http.StatusServiceUnavailable || w.Body.String() != want {
			t.Errorf("%s: %d %q", name, w.Code, w.Body)
		}
	}
}

func TestExposed(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1:0": false, "0.0.0.0:0": true} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if exposed(l) != want {
			t.Errorf("%s: exposed is %v", addr, !want)
		}
		_ = l.Close()
	}
}
