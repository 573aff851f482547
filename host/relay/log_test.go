package relay

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/session"
)

// named is a client that has an id, and nothing else.
type named string

func (n named) ID() string                   { return string(n) }
func (named) ProtocolVersion() string        { return "2025-11-25" }
func (named) Info() json.RawMessage          { return nil }
func (named) Capabilities() json.RawMessage  { return nil }
func (named) Notify(string, json.RawMessage) {}

// TestLogOfClientsSession: what a server prints in a client's own session is logged
// as that session's, and the client's id is not in the log.
func TestLogOfClientsSession(t *testing.T) {
	var out bytes.Buffer
	r := New(Config{Catalog: catalog.New(), Logger: hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Debug})})
	defer r.Close()
	const id = "abcdefghijklmnop"
	for _, line := range []session.LogLine{{Text: "printed", Stderr: true}, {Text: "told", Level: "warn"}} {
		r.Scope("s", named(id)).Handler(nil).Log(line)
		r.HandlerOf("s", nil).Log(line)
	}
	for _, want := range []string{
		"[DEBUG] the server's stderr: server=s session=abcdef line=printed\n", "[DEBUG] the server's stderr: server=s line=printed\n",
		"[WARN]  told: server=s session=abcdef\n", "[WARN]  told: server=s\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log is without %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), id) {
		t.Errorf("the client's id is in the log:\n%s", out.String())
	}
}
