package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Every list of a real server must be the same at /mcp/<server> as from the
// server itself, byte for byte. docs/compatibility.md tells which servers were
// tried; those of testdata/peers are tried in each run, the others by hand:
//
//	npm install --prefix DIR PACKAGE@VERSION…
//	go test ./internal/e2e -run TestLists -args -peers DIR [-update]
var morePeers = flag.String("peers", "", "a directory with more npm `packages` for TestLists")

// A realServer is a published MCP server that starts without the network.
type realServer struct {
	pkg  string // of npm
	kind string // of its transport; "": stdio
	args []string
	env  []string // what it refuses to start without; in the host's configuration, too
	here bool     // in testdata/peers
}

var realServers = []realServer{
	{pkg: "@modelcontextprotocol/server-everything", args: []string{"stdio"}, here: true},
	{pkg: "@modelcontextprotocol/server-everything", kind: "http", here: true},
	{pkg: "@modelcontextprotocol/server-everything", kind: "sse", here: true},
	{pkg: "@modelcontextprotocol/server-filesystem", args: []string{"."}, here: true},
	{pkg: "@modelcontextprotocol/server-memory", here: true},
	{pkg: "@modelcontextprotocol/server-sequential-thinking", here: true},
	{pkg: "@modelcontextprotocol/server-github", env: []string{"GITHUB_PERSONAL_ACCESS_TOKEN"}, here: true},
	{pkg: "@modelcontextprotocol/server-gitlab", env: []string{"GITLAB_PERSONAL_ACCESS_TOKEN"}},
	{pkg: "@modelcontextprotocol/server-brave-search", env: []string{"BRAVE_API_KEY"}},
	{pkg: "@modelcontextprotocol/server-slack", env: []string{"SLACK_BOT_TOKEN", "SLACK_TEAM_ID"}},
	{pkg: "@modelcontextprotocol/server-google-maps", env: []string{"GOOGLE_MAPS_API_KEY"}},
	{pkg: "@modelcontextprotocol/server-everart", env: []string{"EVERART_API_KEY"}},
	{pkg: "@notionhq/notion-mcp-server", env: []string{"NOTION_TOKEN"}},
	{pkg: "mongodb-mcp-server"},
	{pkg: "mcp-server-kubernetes"},
	{pkg: "@playwright/mcp"},
	{pkg: "@upstash/context7-mcp"},
	{pkg: "@wonderwhy-er/desktop-commander"},
	{pkg: "chrome-devtools-mcp"},
	{pkg: "tavily-mcp", env: []string{"TAVILY_API_KEY"}},
	{pkg: "firecrawl-mcp", env: []string{"FIRECRAWL_API_KEY"}},
	{pkg: "exa-mcp-server", env: []string{"EXA_API_KEY"}},
}

// TestLists compares the lists of all servers that are there.
func TestLists(t *testing.T) {
	n := npmPeers(t)
	said, err := os.ReadFile(compatibility())
	if err != nil && !*update {
		t.Fatal(err)
	}
	var rows []string
	for _, s := range realServers {
		t.Run(s.label(), func(t *testing.T) {
			main, version := s.find(t, n)
			row := s.row(version, n.compareLists(t, s, main))
			rows = append(rows, row)
			if !*update && !strings.Contains(string(said), row) {
				t.Errorf("docs/compatibility.md does not say: %s", row)
			}
		})
	}
	if *update && !t.Failed() {
		if len(rows) != len(realServers) {
			t.Fatal("docs/compatibility.md is written only when all servers were there; see -peers")
		}
		if err := os.WriteFile(compatibility(), []byte(compatibilityIntro+strings.Join(rows, "")+compatibilityEnd), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func compatibility() string { return filepath.Join(repository(), "docs", "compatibility.md") }

func (s realServer) transport() string {
	if s.kind == "" {
		return "stdio"
	}
	return s.kind
}

func (s realServer) label() string { return s.pkg + " over " + s.transport() }

// find returns the path of the package's program and its version.
func (s realServer) find(t *testing.T, n npm) (main, version string) {
	t.Helper()
	dirs := []string{n.dir}
	if *morePeers != "" {
		dirs = append(dirs, *morePeers)
	}
	for _, dir := range dirs {
		dir := filepath.Join(dir, "node_modules", filepath.FromSlash(s.pkg))
		text, err := os.ReadFile(filepath.Join(dir, "package.json"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var about struct {
			Version string
			Bin     map[string]string
		}
		if err := json.Unmarshal(text, &about); err != nil {
			t.Fatal(err)
		}
		program := about.Bin[path.Base(s.pkg)]
		if len(about.Bin) == 1 {
			for _, program = range about.Bin {
			}
		}
		return filepath.Join(dir, filepath.FromSlash(program)), about.Version
	}
	if s.here {
		t.Fatalf("%s is not in testdata/peers", s.pkg)
	}
	t.Skip("not installed; see -peers")
	return "", ""
}

// lists are a server's, each entry as it was sent; nil: it has no such list.
type lists map[string][]json.RawMessage

// listMethods are the lists of MCP with the capability that announces each, and
// the member of the result that holds it.
var listMethods = []struct{ method, capability, member string }{
	{"tools/list", "tools", "tools"},
	{"resources/list", "resources", "resources"},
	{"resources/templates/list", "resources", "resourceTemplates"},
	{"prompts/list", "prompts", "prompts"},
}

func (s realServer) row(version string, of lists) string {
	row := fmt.Sprintf("| `%s` | %s | %s |", s.pkg, version, s.transport())
	for _, m := range listMethods {
		if of[m.method] == nil {
			row += " none |"
		} else {
			row += fmt.Sprintf(" %d |", len(of[m.method]))
		}
	}
	return row + "\n"
}

// compareLists runs one server twice, once behind the host, and returns its
// lists.
func (n npm) compareLists(t *testing.T, s realServer, main string) lists {
	dir := t.TempDir()
	var vars strings.Builder
	command := exec.Command(n.node, append([]string{main}, s.args...)...)
	command.Env = append(environment(t), "MEMORY_FILE_PATH="+filepath.Join(dir, "memory.jsonl"))
	command.Dir = dir
	for _, name := range s.env {
		fmt.Fprintf(&vars, "      %s = \"none\"\n", name)
		command.Env = append(command.Env, name+"=none")
	}
	args, err := json.Marshal(command.Args[1:])
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("server \"s\" {\n  transport \"stdio\" {\n    command = %q\n    args = %s\n    cwd = %q\n    env = {\n      MEMORY_FILE_PATH = %q\n%s    }\n  }\n}\n",
		n.node, args, dir, filepath.Join(dir, "memory.jsonl"), &vars)
	var direct mcp.Transport = &mcp.CommandTransport{Command: command}
	switch s.kind {
	case "http":
		url := "http://127.0.0.1:" + n.startEverything(t, "streamableHttp") + "/mcp"
		config = fmt.Sprintf("server \"s\" {\n  transport \"http\" {\n    url = %q\n  }\n}\n", url)
		direct = &mcp.StreamableClientTransport{Endpoint: url}
	case "sse":
		url := "http://127.0.0.1:" + n.startEverything(t, "sse") + "/sse"
		config = fmt.Sprintf("server \"s\" {\n  transport \"sse\" {\n    url = %q\n  }\n}\n", url)
		direct = &mcp.SSEClientTransport{Endpoint: url}
	}
	host := run(t, config, "s")
	want := rawLists(t, direct)
	got := rawLists(t, &mcp.StreamableClientTransport{Endpoint: host.url + "/s"})
	for _, m := range listMethods {
		want, got := want[m.method], got[m.method]
		if (want == nil) != (got == nil) {
			t.Errorf("%s: offered by the server: %v, by the host: %v", m.method, want != nil, got != nil)
		}
		if !slices.EqualFunc(want, got, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			t.Errorf("%s differs.\nThe server sent %d: %s\nThe host sent %d: %s", m.method, len(want), want, len(got), got)
		}
	}
	return want
}

// rawLists fetches all lists over a transport, as the host declares itself.
func rawLists(t *testing.T, transport mcp.Transport) lists {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := transport.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &rawClient{conn: conn}
	text, err := c.call(ctx, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"form":{},"url":{}},"sampling":{}},"clientInfo":{"name":"e2e","version":"1"}}`)
	if err != nil {
		t.Fatal(err)
	}
	var init struct{ Capabilities map[string]json.RawMessage }
	if err := json.Unmarshal(text, &init); err != nil {
		t.Fatal(err)
	}
	if err := conn.Write(ctx, &jsonrpc.Request{Method: "notifications/initialized"}); err != nil {
		t.Fatal(err)
	}
	all := lists{}
	for _, m := range listMethods {
		if init.Capabilities[m.capability] == nil {
			continue
		}
		all[m.method], err = c.list(ctx, m.method, m.member)
		if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e.Code == jsonrpc.CodeMethodNotFound {
			// Servers without templates need not know that list. The host
			// answers with an empty one.
			all[m.method], err = []json.RawMessage{}, nil
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// A rawClient sees messages as they are.
type rawClient struct {
	conn mcp.Connection
	id   int64
}

func (c *rawClient) call(ctx context.Context, method, params string) (json.RawMessage, error) {
	c.id++
	id, err := jsonrpc.MakeID(float64(c.id))
	if err != nil {
		return nil, err
	}
	if err := c.conn.Write(ctx, &jsonrpc.Request{ID: id, Method: method, Params: json.RawMessage(params)}); err != nil {
		return nil, err
	}
	for {
		m, err := c.conn.Read(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", method, errors.Join(err, io.ErrUnexpectedEOF))
		}
		switch m := m.(type) {
		case *jsonrpc.Response:
			if m.ID == id {
				return m.Result, m.Error
			}
		case *jsonrpc.Request:
			if m.Method == "ping" {
				if err := c.conn.Write(ctx, &jsonrpc.Response{ID: m.ID, Result: json.RawMessage("{}")}); err != nil {
					return nil, err
				}
			}
		}
	}
}

// list fetches all pages of a list. An empty one is not nil.
func (c *rawClient) list(ctx context.Context, method, member string) ([]json.RawMessage, error) {
	all := []json.RawMessage{}
	params := "{}"
	for {
		text, err := c.call(ctx, method, params)
		if err != nil {
			return nil, err
		}
		var page map[string]json.RawMessage
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, err
		}
		var entries []json.RawMessage
		if err := json.Unmarshal(page[member], &entries); err != nil {
			return nil, fmt.Errorf("%s in %s: %w", member, text, err)
		}
		all = append(all, entries...)
		if page["nextCursor"] == nil {
			return all, nil
		}
		params = fmt.Sprintf(`{"cursor":%s}`, page["nextCursor"])
	}
}

const compatibilityEnd = "\n" +
	"Clients: the command line of the Inspector 0.15 (`@modelcontextprotocol/inspector-cli`)\n" +
	"puts `/mcp` in the place of the path of every URL that does not end in it. Given\n" +
	"`/mcp/<server>` it shows what is at `/mcp`.\n"

const compatibilityIntro = `# Compatibility

MCP servers that are published on npm and start without the network and without
an account. What each one lists is the same at ` + "`/mcp/<server>`" + ` as from the server
itself, byte for byte: tools, resources, resource templates and prompts.

` + "`TestLists`" + ` in internal/e2e compares those that ` + "`make peers`" + ` installs in every
run. The others are compared by hand; the test says how, and writes this file.
"none" means that the server does not offer that kind of list.

| package | version | transport | tools | resources | templates | prompts |
|---|---|---|---|---|---|---|
`
