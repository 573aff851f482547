package main

import (
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/hermes-host/hermes-host/shared/plugintest"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// TestFilesThatComeLater: a file that can't be used is a warning, and a fault of
// the configuration for whoever connects, until it is there.
func TestFilesThatComeLater(t *testing.T) {
	front := newFront(t, plugintest.LegacyOnly)
	web := httptest.NewTLSServer(front)
	t.Cleanup(web.Close)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) {
		if err := os.WriteFile(file(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := plugintest.Start(t, os.Args[0], envPlugin+"=1")
	faulty := func(block, attribute string) {
		t.Helper()
		r, err := p.Validate(t.Context(), &transportpb.ValidateRequest{Config: []byte(block)})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Diagnostics) != 1 || r.Diagnostics[0].Severity != transportpb.Diagnostic_SEVERITY_WARNING || r.Diagnostics[0].Path[0].GetAttribute() != attribute {
			t.Errorf("validating: %v", r.Diagnostics)
		}
		end := p.Open(t, &transportpb.OpenSession{Config: []byte(block)}).AwaitEnd()
		if end.GetClass() != transportpb.SessionEnd_CLASS_CONFIG || end.GetRetryable() || len(end.GetPath()) != 1 || end.GetPath()[0].GetAttribute() != attribute {
			t.Errorf("opening: %v", end)
		}
	}
	trusting := fmt.Sprintf(`{"url": %q, "ca_file": %q}`, web.URL, file("ca.pem"))
	faulty(trusting, "ca_file")
	write("ca.pem", "no certificate")
	faulty(trusting, "ca_file")
	faulty(fmt.Sprintf(`{"url": %q, "client_cert_file": %q, "client_key_file": %q}`, front.URL, file("cert.pem"), file("key.pem")), "client_cert_file")

	write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})))
	s := p.Open(t, &transportpb.OpenSession{Config: []byte(trusting)})
	if s.Init == nil {
		t.Fatalf("no session with the file there: %v", s.AwaitEnd())
	}
}
