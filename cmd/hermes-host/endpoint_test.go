package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// offering is an MCP server with the tools demo__echo and demo__add, at /mcp
// alone, for those who have the token; empty: for all.
func offering(t *testing.T, token string) *httptest.Server {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "offering", Version: "1"}, nil)
	for _, name := range []string{"demo__echo", "demo__add"} {
		mcp.AddTool(server, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "called"}}}, nil, nil
		})
	}
	front := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	refuse := func(w http.ResponseWriter, status int, message string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":%q}}`, message)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case token != "" && r.Header.Get("Authorization") != "Bearer "+token:
			refuse(w, http.StatusUnauthorized, "no")
		case r.URL.Path != "/mcp":
			refuse(w, http.StatusNotFound, "no server or endpoint named \"x\" is configured")
		default:
			front.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// command runs a command line, wants an exit code, and returns all it printed.
func command(t *testing.T, want int, args ...string) string {
	t.Helper()
	var out strings.Builder
	if code := execute(t.Context(), args, strings.NewReader(""), &out, &out); code != want {
		t.Errorf("%q: exit code %d, want %d: %s", args, code, want, &out)
	}
	return out.String()
}

// TestToolsOfRunningHost finds the host by its admin socket, though the
// configuration can't be evaluated here and says nothing of the address.
func TestToolsOfRunningHost(t *testing.T) {
	path := operateAt(t, offering(t, "").URL+"/mcp", `listen "http" { token = env("HERMES_TEST_UNSET") }`)
	t.Chdir(t.TempDir())
	for _, args := range [][]string{{"tools"}, {"tools", "-c", path}} {
		if out := command(t, exitOK, args...); !strings.Contains(out, "demo__echo") {
			t.Errorf("%q printed %q", args, out)
		}
	}
	if out := command(t, exitOK, "call", "demo__echo"); out != "called\n" {
		t.Errorf("call printed %q", out)
	}
	if out := command(t, exitOK, "__complete", "call", "demo__"); !strings.HasPrefix(out, "demo__add\ndemo__echo\n") {
		t.Errorf("completion printed %q", out)
	}
	if out := command(t, exitUnreachable, "tools", "--socket", "/no/such.sock"); !strings.HasPrefix(out, "hermes-host: no host answers at /no/such.sock: ") {
		t.Errorf("another socket: %q", out)
	}
	// What --url names comes first.
	other := "http://127.0.0.1:1/mcp"
	if out := command(t, exitUnreachable, "tools", "--url", other); !strings.HasSuffix(out, "--url: connection refused\n") || !strings.Contains(out, other) {
		t.Errorf("a URL at which nobody listens: %q", out)
	}
}

// TestNoTool suggests what may have been meant.
func TestNoTool(t *testing.T) {
	operateAt(t, offering(t, "").URL+"/mcp", "")
	for tool, want := range map[string]string{
		"echo":       `there is no tool "echo"; did you mean demo__echo? ("hermes-host tools" lists them)`,
		"demo__ecco": `there is no tool "demo__ecco"; did you mean demo__echo? ("hermes-host tools" lists them)`,
		"nothing":    `there is no tool "nothing" ("hermes-host tools" lists them)`,
	} {
		if out := command(t, exitError, "call", tool); out != "hermes-host: "+want+"\n" {
			t.Errorf("%s: %q", tool, out)
		}
	}
}

// TestRefusedClients are told what the host said, and what to do.
func TestRefusedClients(t *testing.T) {
	t.Setenv("HERMES_TOKEN", "")
	at := offering(t, "a-secret-of-the-test").URL
	path := operateAt(t, at+"/mcp", `listen "http" { token = "a-secret-of-the-test" }`)
	if out := command(t, exitOK, "tools", "-c", path); !strings.Contains(out, "demo__echo") {
		t.Errorf("with the token of the configuration: %q", out)
	}
	for _, tt := range []struct{ args, want string }{
		{"tools --url " + at + "/mcp", "the host at " + at + "/mcp wants a token: --token or $HERMES_TOKEN"},
		{"tools --token false --url " + at + "/mcp", "the host at " + at + "/mcp refuses the token: it is wrong"},
		{"tools --token a-secret-of-the-test --url " + at + "/mcp/x", `no server or endpoint named "x" is configured`},
	} {
		if out := command(t, exitError, strings.Fields(tt.args)...); out != "hermes-host: "+tt.want+"\n" {
			t.Errorf("%s: %q", tt.args, out)
		}
	}
}
