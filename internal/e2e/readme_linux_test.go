package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A block is a fenced block of the README under a comment that says how it is
// tested: <!-- test: KIND -->.
type block struct {
	kind, text string
	line       int
}

var fence = regexp.MustCompile("(?ms)^<!-- test: ([a-z-]+) -->\n```[a-z]+\n(.*?)^```$")

func readmeBlocks(t *testing.T) map[string][]block {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository(), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string][]block{}
	for _, m := range fence.FindAllSubmatchIndex(text, -1) {
		b := block{string(text[m[2]:m[3]]), string(text[m[4]:m[5]]), 1 + bytes.Count(text[:m[4]], []byte("\n"))}
		blocks[b.kind] = append(blocks[b.kind], b)
	}
	return blocks
}

const defaultAddress = "127.0.0.1:7717"

// TestReadme does what the README's first screen tells a newcomer to do, in a
// clone of the working tree, with another port.
func TestReadme(t *testing.T) {
	t.Parallel()
	blocks := readmeBlocks(t)
	for kind, n := range map[string]int{"serve": 1, "console": 1, "validate": 1, "connect": 4, "validate-fails": 1, "plugin": 1, "library": 1} {
		if len(blocks[kind]) != n {
			t.Fatalf("the README has %d blocks %q, want %d", len(blocks[kind]), kind, n)
		}
	}
	address := "127.0.0.1:" + freePort(t)
	home := newHome(t, address)

	host := startProgram(t, home.bash(t, blocks["serve"][0].text))
	t.Cleanup(func() { syscall.Kill(-host.cmd.Process.Pid, syscall.SIGKILL) })
	host.wait = 10 * time.Minute // it builds
	host.await(0, "the address", func(l line) bool { return l.Message == "serving MCP" })
	host.awaitState(0, "demo", "ready")

	for _, b := range blocks["console"] {
		home.console(t, b)
	}
	for _, b := range blocks["connect"] {
		home.connect(t, b, address)
	}
}

// TestReadmeConfigurations validates the configurations that the README shows.
func TestReadmeConfigurations(t *testing.T) {
	t.Setenv("TICKETS_TOKEN", "a token")
	blocks := readmeBlocks(t)
	for _, b := range blocks["validate"] {
		if out := command(t, "", "validate", "--config", writeConfig(t, b.text)); out.code != 0 {
			t.Errorf("README.md:%d: exit code %d\n%s", b.line, out.code, out.stderr)
		}
	}
	for _, b := range blocks["validate-fails"] {
		if out := command(t, "", "validate", "--config", writeConfig(t, b.text)); out.code != 1 || out.stderr == "" {
			t.Errorf("README.md:%d: exit code %d\n%s", b.line, out.code, out.stderr)
		}
	}
}

// TestReadmePlugin validates a configuration with the README's plugin block.
func TestReadmePlugin(t *testing.T) {
	for _, b := range readmeBlocks(t)["plugin"] {
		config := writeConfig(t, "")
		program := filepath.Join(filepath.Dir(config), "hermes-transport-websocket")
		buildText(t, program, `package main

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hermes-host/hermes-host/shared"
)

type config struct {
	URL string `+"`hcl:\"url\"`"+`
}

func main() {
	shared.Serve(shared.Plugin[config]{
		Kind: "websocket", Version: "1.0.0",
		Transport: func(context.Context, shared.Session, config) (mcp.Transport, error) {
			return nil, errors.New("never asked for")
		},
	})
}
`)
		binary, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(b.text, "…", fmt.Sprintf("%x", sha256.Sum256(binary)), 1) +
			"server \"live\" {\n  transport \"websocket\" { url = \"wss://127.0.0.1/\" }\n}\n"
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out := command(t, "", "validate", "--config", config); out.code != 0 {
			t.Errorf("README.md:%d: exit code %d\n%s", b.line, out.code, out.stderr)
		}
	}
}

// TestReadmeLibrary compiles what the README shows of the host as a library.
func TestReadmeLibrary(t *testing.T) {
	for _, b := range readmeBlocks(t)["library"] {
		buildText(t, os.DevNull, `package readme

import (
	"context"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/host"
	"github.com/hermes-host/hermes-host/host/config"
)

func Run(ctx context.Context, logger hclog.Logger) error {
`+b.text+"}\n")
	}
}

// buildText builds a package of one file as if it were in the module.
func buildText(t *testing.T, output, source string) {
	t.Helper()
	dir := t.TempDir()
	file, overlay := filepath.Join(dir, "file.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(repository(), "internal", "e2e", "readme", "file.go"): file,
	}})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{file: []byte(source), overlay: replace} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-buildvcs=false", "-overlay", overlay, "-o", output, "./internal/e2e/readme")
	build.Dir = repository()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, source)
	}
}

// home is a newcomer's directory.
type home struct {
	dir, clone string
	env        []string
}

// newHome prepares a home in which `git clone` copies the working tree, with
// the address of its configuration changed, and hermes-host is installed.
func newHome(t *testing.T, address string) home {
	t.Helper()
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	copyTree(t, repository(), tree)
	config := filepath.Join(tree, "config.hcl")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(defaultAddress)) {
		t.Fatalf("config.hcl does not name %s", defaultAddress)
	}
	text = bytes.ReplaceAll(text, []byte(defaultAddress), []byte(address))
	user := filepath.Join(dir, ".config", "hermes-host")
	shim := filepath.Join(dir, "shim")
	for _, d := range []string{user, shim} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, content := range map[string]string{
		config:                            string(text),
		filepath.Join(user, "config.hcl"): string(text),
		filepath.Join(shim, "git"): "#!/bin/sh\n[ \"$1\" = clone ] || exit 1 # no repository: the copy has none\n" +
			"exec cp -r '" + tree + "' \"$(basename \"$2\")\"\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return home{dir, filepath.Join(dir, "hermes-host"), append(os.Environ(),
		"HOME="+dir, "XDG_CONFIG_HOME=", "NO_COLOR=1",
		// The caches stay where they are.
		"GOCACHE="+goEnv(t, "GOCACHE"), "GOMODCACHE="+goEnv(t, "GOMODCACHE"), "GOENV="+goEnv(t, "GOENV"),
		"PATH="+strings.Join([]string{shim, binDir, os.Getenv("PATH")}, string(os.PathListSeparator)),
	)}
}

// copyTree copies the files that git knows or would add.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, path) // path begins with from
		switch {
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || rel == "bin"):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// bash is a shell that runs a script in the home, in a process group of its
// own.
func (h home) bash(t *testing.T, script string) *exec.Cmd {
	cmd := exec.Command("bash", "-euc", script)
	cmd.Dir = h.dir
	cmd.Env = h.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// console runs a session as it is shown: lines that begin with "$ " are
// commands, those below are what they print. An … stands for anything.
func (h home) console(t *testing.T, b block) {
	t.Helper()
	var command string
	var want []string
	check := func() {
		if command == "" {
			return
		}
		cmd := h.bash(t, command)
		cmd.Dir = h.clone
		out, _ := cmd.CombinedOutput() // what is shown counts, also of a command that fails
		pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.Join(want, "\n")), "…", "(?s:.*)")
		if !regexp.MustCompile(`^` + pattern + `\n*$`).Match(out) {
			t.Errorf("README.md:%d: %s printed\n%swant\n%s", b.line, command, out, strings.Join(want, "\n"))
		}
	}
	for text := range strings.Lines(b.text) {
		text = strings.TrimSuffix(text, "\n")
		if next, ok := strings.CutPrefix(text, "$ "); ok {
			check()
			command, want = next, nil
		} else {
			want = append(want, text)
		}
	}
	check()
}

// connect reads a client's configuration and connects as that client would.
func (h home) connect(t *testing.T, b block, address string) {
	t.Helper()
	type server struct {
		URL, Command string
		Args         []string
	}
	var config struct{ MCPServers, Servers map[string]server }
	if err := json.Unmarshal([]byte(b.text), &config); err != nil {
		t.Fatalf("README.md:%d: %v", b.line, err)
	}
	s, ok := config.MCPServers["hermes"]
	if !ok {
		s = config.Servers["hermes"]
	}
	var transport mcp.Transport = &mcp.StreamableClientTransport{Endpoint: strings.Replace(s.URL, defaultAddress, address, 1)}
	if s.Command != "" {
		cmd := h.bash(t, fmt.Sprintf("exec %s %s", s.Command, strings.Join(s.Args, " ")))
		transport = &mcp.CommandTransport{Command: cmd}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "e2e"}, nil).Connect(ctx, transport, nil)
	if err != nil {
		t.Fatalf("README.md:%d: %v", b.line, err)
	}
	defer session.Close()
	if got := callText(t, session, "demo__echo", map[string]any{"text": "connected"}); got != "connected" {
		t.Errorf("README.md:%d: echo answered %q", b.line, got)
	}
}
