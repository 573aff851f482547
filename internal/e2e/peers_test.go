package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// npm knows where the peers and their Node are.
type npm struct{ dir, node string }

func npmPeers(t *testing.T) npm {
	t.Helper()
	dir := peers(t)
	return npm{dir, filepath.Join(dir, "node_modules", "node", "bin", "node")}
}

// module returns the path of a file of a package of @modelcontextprotocol.
func (n npm) module(path string) string {
	return filepath.Join(n.dir, "node_modules", "@modelcontextprotocol", filepath.FromSlash(path))
}

// output runs a Node program to its end and returns what it printed.
func (n npm) output(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, n.node, args...)
	cmd.Env = environment(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node %s: %v\n%s%s", strings.Join(args, " "), err, out, &stderr)
	}
	return string(out)
}

// startEverything starts server-everything over HTTP, "streamableHttp" or
// "sse", and returns its port.
func (n npm) startEverything(t *testing.T, transport string) string {
	t.Helper()
	port := freePort(t)
	cmd := exec.Command(n.node, n.module("server-everything/dist/index.js"), transport)
	cmd.Env = append(os.Environ(), "PORT="+port)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	up := make(chan struct{})
	go func() {
		defer close(drained)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if strings.Contains(lines.Text(), " on port ") {
				close(up)
				break
			}
		}
		io.Copy(io.Discard, stderr)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-drained
		_ = cmd.Wait() // killed: always an error
	})
	select {
	case <-up:
	case <-drained:
		t.Fatalf("server-everything over %s ended", transport)
	}
	return port
}

// freePort returns a port that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return fmt.Sprint(listener.Addr().(*net.TCPAddr).Port)
}

// peersConfig is a configuration with npm's servers over every transport, and
// the demo server, all at once. The files server is allowed dir.
func (n npm) peersConfig(t *testing.T, dir string) string {
	stdio := func(name string, env map[string]string, args ...string) string {
		list, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		var vars strings.Builder
		for k, v := range env {
			fmt.Fprintf(&vars, "%s = %q", k, v)
		}
		return fmt.Sprintf("server %q {\n  transport \"stdio\" {\n    command = %q\n    args = %s\n    env = { %s }\n  }\n}\n", name, n.node, list, &vars)
	}
	return stdio("everything", nil, n.module("server-everything/dist/index.js"), "stdio") +
		stdio("files", nil, n.module("server-filesystem/dist/index.js"), dir) +
		stdio("memory", map[string]string{"MEMORY_FILE_PATH": filepath.Join(dir, "memory.jsonl")}, n.module("server-memory/dist/index.js")) +
		fmt.Sprintf("server \"everything_http\" {\n  transport \"http\" {\n    url = \"http://127.0.0.1:%s/mcp\"\n  }\n}\n", n.startEverything(t, "streamableHttp")) +
		fmt.Sprintf("server \"everything_sse\" {\n  transport \"sse\" {\n    url = \"http://127.0.0.1:%s/sse\"\n  }\n}\n", n.startEverything(t, "sse")) +
		demoServer("demo")
}

var peerNames = []string{"everything", "files", "memory", "everything_http", "everything_sse", "demo"}

// oneCall is a call of each server and what its text contains.
var oneCall = []struct {
	server, tool string
	arguments    map[string]any
	want         string
}{
	{"everything", "echo", map[string]any{"message": "over stdio"}, "over stdio"},
	{"everything_http", "echo", map[string]any{"message": "over http"}, "over http"},
	{"everything_sse", "echo", map[string]any{"message": "over sse"}, "over sse"},
	{"everything", "get-sum", map[string]any{"a": 2, "b": 40}, "42"},
	{"files", "read_text_file", map[string]any{"path": "note.txt"}, "a note"},
	{"memory", "read_graph", map[string]any{}, "entities"},
	{"demo", "echo", map[string]any{"text": "demo"}, "demo"},
}

// TestPeers runs all of npm's servers in one host and meets them with three
// clients over every way in.
func TestPeers(t *testing.T) {
	n := npmPeers(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "note.txt"), []byte("a note"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := n.peersConfig(t, dir)
	host := run(t, config, peerNames...)
	for i := range oneCall {
		if oneCall[i].server == "files" {
			oneCall[i].arguments["path"] = filepath.Join(dir, "note.txt")
		}
	}

	t.Run("Go SDK", func(t *testing.T) {
		session := host.connect("", nil)
		for _, c := range oneCall {
			if got := callText(t, session, c.server+"__"+c.tool, c.arguments); !strings.Contains(got, c.want) {
				t.Errorf("%s: %s answered %q, want %q in it", c.server, c.tool, got, c.want)
			}
		}
	})
	t.Run("TypeScript SDK", func(t *testing.T) {
		t.Run("all", func(t *testing.T) { n.checkAll(t, map[string]any{"url": host.url}) })
		t.Run("stdio", func(t *testing.T) {
			n.checkAll(t, map[string]any{"command": hermes, "args": []string{"stdio", "--config", writeConfig(t, config)}})
		})
		for _, server := range peerNames {
			t.Run(server, func(t *testing.T) { n.checkOne(t, host, server) })
		}
		t.Run("given up", func(t *testing.T) { n.checkGivenUp(t, host) })
	})
	t.Run("Inspector", func(t *testing.T) { n.inspect(t, host) })
}

// clientReport is what client.mjs prints.
type clientReport struct {
	Server                               struct{ Name string }
	Tools, Resources, Templates, Prompts []string
	Calls                                []toolResult
	Contents                             []string
	Gets                                 []int
}

type toolResult struct {
	Content []struct{ Type, Text string }
	IsError bool
}

func (r toolResult) contains(s string) bool {
	for _, c := range r.Content {
		if strings.Contains(c.Text, s) {
			return !r.IsError
		}
	}
	return false
}

func (n npm) client(t *testing.T, what map[string]any) clientReport {
	t.Helper()
	argument, err := json.Marshal(what)
	if err != nil {
		t.Fatal(err)
	}
	var r clientReport
	out := n.output(t, filepath.Join(n.dir, "client.mjs"), string(argument))
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return r
}

// checkAll meets the aggregate of all servers.
func (n npm) checkAll(t *testing.T, where map[string]any) {
	var calls []map[string]any
	for _, c := range oneCall {
		calls = append(calls, map[string]any{"name": c.server + "__" + c.tool, "arguments": c.arguments})
	}
	where["calls"] = calls
	where["read"] = []string{"demo://greeting/Ada"}
	r := n.client(t, where)
	for i, c := range oneCall {
		if !slices.Contains(r.Tools, c.server+"__"+c.tool) {
			t.Errorf("%s__%s is not listed", c.server, c.tool)
		}
		if !r.Calls[i].contains(c.want) {
			t.Errorf("%s__%s answered %+v, want %q", c.server, c.tool, r.Calls[i], c.want)
		}
	}
	if !slices.Contains(r.Resources, "demo://info") {
		t.Errorf("demo://info is not among the resources %q", r.Resources)
	}
	if !slices.Contains(r.Templates, "demo://greeting/{name}") {
		t.Errorf("the greeting is not among the templates %q", r.Templates)
	}
	if !slices.Contains(r.Prompts, "demo__try_recovery") {
		t.Errorf("demo__try_recovery is not among the prompts %q", r.Prompts)
	}
	if len(r.Contents) != 1 || r.Contents[0] != "Hello, Ada!" {
		t.Errorf("reading the greeting: %q", r.Contents)
	}
}

// checkGivenUp has a client give up a call that has a stream of its own. The SDK
// takes an error for no answer and resumes the stream once: it must learn that
// there is nothing to come, or it goes on asking for ever.
func (n npm) checkGivenUp(t *testing.T, host *runningHost) {
	slow := map[string]any{"name": "demo__slow", "arguments": map[string]any{"seconds": 10}}
	r := n.client(t, map[string]any{"url": host.url, "givenUp": []any{slow}})
	if len(r.Gets) != 1 || r.Gets[0] > 1 {
		t.Errorf("after the call the client asked for streams %v times", r.Gets)
	}
}

// checkOne meets one server at its own endpoint, under its own names.
func (n npm) checkOne(t *testing.T, host *runningHost, server string) {
	var calls []map[string]any
	var want []string
	for _, c := range oneCall {
		if c.server == server {
			calls = append(calls, map[string]any{"name": c.tool, "arguments": c.arguments})
			want = append(want, c.want)
		}
	}
	r := n.client(t, map[string]any{"url": host.url + "/" + server, "calls": calls})
	for i, call := range calls {
		if !slices.Contains(r.Tools, call["name"].(string)) {
			t.Errorf("%s is not among the tools %q", call["name"], r.Tools)
		}
		if !r.Calls[i].contains(want[i]) {
			t.Errorf("%s answered %+v, want %q", call["name"], r.Calls[i], want[i])
		}
	}
	// The list is the server's own.
	all, err := host.connect("/"+server, nil).ListTools(t.Context(), &mcp.ListToolsParams{})
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Tools) != len(r.Tools) {
		t.Errorf("the TypeScript client lists %d tools, the Go client %d", len(r.Tools), len(all.Tools))
	}
}

// inspect lists and calls with the Inspector's command line.
func (n npm) inspect(t *testing.T, host *runningHost) {
	// The Inspector reads stdio servers from a file of its own. It lists once
	// and does not wait for changes, so the host behind it is one that starts
	// quickly.
	file := filepath.Join(t.TempDir(), "mcp.json")
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"hermes": map[string]any{
		"command": hermes, "args": []string{"stdio", "--config", writeConfig(t, demoServer("demo"))},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, way := range []struct {
		name, prefix string
		target       []string
	}{
		{"all", "demo__", []string{host.url}},
		{"one server", "", []string{host.url + "/demo", "--transport", "http"}},
		{"stdio", "demo__", []string{"--config", file, "--server", "hermes"}},
	} {
		t.Run(way.name, func(t *testing.T) {
			cli := append([]string{n.module("inspector/clients/launcher/build/index.js"), "--cli"}, way.target...)
			var list struct{ Tools []struct{ Name string } }
			out := n.output(t, slices.Concat(cli, []string{"--method", "tools/list"})...)
			if err := json.Unmarshal([]byte(out), &list); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			if !slices.ContainsFunc(list.Tools, func(tool struct{ Name string }) bool { return tool.Name == way.prefix+"echo" }) {
				t.Errorf("%secho is not listed: %s", way.prefix, out)
			}
			var result toolResult
			out = n.output(t, slices.Concat(cli, []string{"--method", "tools/call", "--tool-name", way.prefix + "echo", "--tool-arg", "text=inspected"})...)
			if err := json.Unmarshal([]byte(out), &result); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			if !result.contains("inspected") {
				t.Errorf("echo answered %s", out)
			}
		})
	}
}
