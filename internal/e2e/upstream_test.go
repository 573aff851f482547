package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hermes-host/hermes-host/internal/demo"
)

// With this variable set to "http" or "sse", the test program is the demo
// server over that transport, at $upstreamAddress.
const (
	upstreamEnv     = "HERMES_TEST_UPSTREAM"
	upstreamAddress = "HERMES_TEST_UPSTREAM_ADDRESS"
)

func serveUpstream(kind string) {
	server := demo.New()
	get := func(*http.Request) *mcp.Server { return server }
	var handler http.Handler = mcp.NewStreamableHTTPHandler(get, nil)
	if kind == "sse" {
		handler = mcp.NewSSEHandler(get, nil)
	}
	listener, err := net.Listen("tcp", os.Getenv(upstreamAddress))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("http://%s/\n", listener.Addr())
	fmt.Fprintln(os.Stderr, http.Serve(listener, handler))
	os.Exit(1)
}

// An upstream is an MCP server over HTTP in a process of its own.
type upstream struct {
	t         *testing.T
	kind, url string
	env       []string // makes the test program this server
	cmd       *exec.Cmd
}

// startUpstream starts the demo server over "http" or "sse" on a free port.
func startUpstream(t *testing.T, kind string) *upstream {
	u := &upstream{t: t, kind: kind, env: []string{upstreamEnv + "=" + kind}}
	u.start("127.0.0.1:0")
	t.Cleanup(u.kill)
	return u
}

func (u *upstream) start(address string) {
	u.t.Helper()
	u.cmd = exec.Command(os.Args[0])
	u.cmd.Env = append(append(os.Environ(), u.env...), upstreamAddress+"="+address)
	u.cmd.Stderr = os.Stderr
	stdout, err := u.cmd.StdoutPipe()
	if err != nil {
		u.t.Fatal(err)
	}
	if err := u.cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	url, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		u.t.Fatalf("starting the %s server: %v", u.kind, err)
	}
	u.url = strings.TrimSpace(url)
}

// kill ends the server as `kill -9` does.
func (u *upstream) kill() {
	u.cmd.Process.Kill()
	_ = u.cmd.Wait() // killed: always an error
}

// restart kills the server and starts it anew at the same address.
func (u *upstream) restart() {
	u.t.Helper()
	u.kill()
	u.start("127.0.0.1:" + port(u.t, u.url))
}

// server is a server block that reaches u.
func (u *upstream) server(name string) string {
	return fmt.Sprintf("server %q {\n  transport %q {\n    url = %q\n  }\n}\n", name, u.kind, u.url)
}
