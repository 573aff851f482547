package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// With this variable set, the test program is a server on stdio that knows the
// handshakes that its value says: "old" (initialize alone, and never after
// another request), "dies" and "mute" (what old servers do when they are asked
// server/discover), "new" (server/discover alone), "shy" (the same, and leaves
// initialize unanswered), "both". Its tool "version"
// tells the version of the session. It notes its starts and its resources'
// subscribers in the file of eraFile.
const (
	eraEnv  = "HERMES_TEST_ERA"
	eraFile = "HERMES_TEST_ERA_FILE"
)

// serveEra is that server. It reports false if this is not to be one.
func serveEra() bool {
	kind := os.Getenv(eraEnv)
	if kind == "" {
		return false
	}
	e := era{kind: kind, out: os.Stdout}
	e.note("start")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var m eraMessage
		if json.Unmarshal(lines.Bytes(), &m) == nil && m.ID != nil {
			e.serve(m)
		}
	}
	return true
}

type eraMessage struct {
	ID     json.RawMessage
	Method string
	Params struct {
		ProtocolVersion string
		Meta            struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	}
}

type era struct {
	kind    string
	out     io.Writer
	version string // agreed on in initialize
	spoilt  bool
}

func (e *era) note(what string) {
	f, err := os.OpenFile(os.Getenv(eraFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, "%s %d\n", what, os.Getpid())
		f.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const (
	eraCapabilities = `"capabilities":{"tools":{}}`
	eraInfo         = `{"name":"era","version":"1"}`
)

func (e *era) serve(m eraMessage) {
	version := e.version
	if v := m.Params.Meta.Version; v != "" {
		version = v
	}
	newer := e.kind == "new" || e.kind == "shy" || e.kind == "both"
	switch {
	case m.Method == "initialize" && e.kind == "shy":
	case m.Method == "initialize" && e.kind != "new" && !e.spoilt:
		e.version = m.Params.ProtocolVersion
		e.answer(m, `"result":{"protocolVersion":%q,%s,"serverInfo":%s}`, e.version, eraCapabilities, eraInfo)
	case m.Method == "server/discover" && newer:
		e.answer(m, `"result":{"supportedVersions":["2026-07-28"],%s,"_meta":{"io.modelcontextprotocol/serverInfo":%s}}`, eraCapabilities, eraInfo)
	case m.Method == "server/discover" && e.kind == "dies":
		os.Exit(1)
	case m.Method == "server/discover" && e.kind == "mute":
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	case version == "" || e.spoilt:
		e.spoilt = true
		e.answer(m, `"error":{"code":-32601,"message":"not before initialize"}`)
	case m.Method == "tools/list":
		e.answer(m, `"result":{"tools":[{"name":"version","inputSchema":{"type":"object"}}]}`)
	case m.Method == "tools/call":
		e.answer(m, `"result":{"content":[{"type":"text","text":%q}]}`, version)
	default:
		e.answer(m, `"error":{"code":-32601,"message":"unknown"}`)
	}
}

func (e *era) answer(m eraMessage, format string, args ...any) {
	fmt.Fprintf(e.out, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, fmt.Sprintf(format, args...))
}

// eraServer is a server block for it, with the file that it writes to.
func eraServer(t *testing.T, kind, settings string) (block string, noted func(what string) (pids []int)) {
	file := filepath.Join(t.TempDir(), "noted")
	block = fmt.Sprintf("server \"era\" {\n%s\n  transport \"stdio\" {\n    command = %q\n    env = { %s = %q, %s = %q }\n  }\n}\n",
		settings, self(t), eraEnv, kind, eraFile, file)
	return block, func(what string) (pids []int) {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var pid int
			if _, err := fmt.Sscanf(line, what+" %d", &pid); err == nil {
				pids = append(pids, pid)
			}
		}
		return pids
	}
}

// TestDetoursAreRemembered: a server that takes the host's first question badly
// costs a process more when the host meets it, or most of the time for an
// attempt if it does not answer, and neither at any reconnect.
func TestDetoursAreRemembered(t *testing.T) {
	t.Parallel()
	for kind, settings := range map[string]string{
		"old":  `  protocol = "2026-07-28"`,
		"dies": `  protocol = "2026-07-28"`,
		"mute": `  protocol = "2026-07-28"`,
		"new":  "", // where initialize comes first
		"shy":  `  timeouts { connect = "8s" }`,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			block, noted := eraServer(t, kind, settings)
			h := run(t, block, "era")
			want := 2
			if kind == "shy" {
				want = 1
			}
			for reconnects := range 3 {
				starts := noted("start")
				if kind == "mute" && reconnects == 1 && len(starts) == want+1 {
					want++ // the machine was so slow that silence did not count the first time
				}
				if len(starts) != want {
					t.Fatalf("%d processes after %d reconnects, want %d", len(starts), reconnects, want)
				}
				want++
				p, err := os.FindProcess(starts[len(starts)-1])
				if err != nil {
					t.Fatal(err)
				}
				from, killed := h.mark(), time.Now()
				if err := p.Kill(); err != nil {
					t.Fatal(err)
				}
				h.awaitState(from, "era", "ready")
				if took := time.Since(killed); kind == "shy" && took > 5*time.Second {
					t.Errorf("the reconnect took %v", took)
				}
			}
		})
	}
}

// TestBothEras: a server that speaks both eras serves each client in the
// client's own version, from one configuration; and one that knows only one era
// serves them all.
func TestBothEras(t *testing.T) {
	t.Parallel()
	versions := []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}
	for kind, spoken := range map[string][]string{
		"both": versions,
		"new":  {"2026-07-28", "2026-07-28", "2026-07-28", "2026-07-28", "2026-07-28"},
		"old":  {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2025-11-25"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			block, _ := eraServer(t, kind, "  protocol = \"2026-07-28\"\n  session = \"client\"")
			h := run(t, block, "era")
			for i, version := range versions {
				if got := askVersion(t, h.url, version); got != spoken[i] {
					t.Errorf("a client of %s got a session of %s, want %s", version, got, spoken[i])
				}
			}
		})
	}
}

// askVersion calls the tool as a client of a version does.
func askVersion(t *testing.T, url, version string) string {
	t.Helper()
	header := http.Header{}
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"era__version","arguments":{}`
	if version == "2026-07-28" {
		header.Set("Mcp-Method", "tools/call")
		header.Set("Mcp-Name", "era__version")
		call += `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	} else {
		_, got := post(t, url, header, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		header.Set("Mcp-Session-Id", got.Get("Mcp-Session-Id"))
	}
	if version > "2025-03-26" {
		header.Set("Mcp-Protocol-Version", version)
	}
	text, _ := post(t, url, header, call+"}}")
	var answer struct{ Result toolResult }
	if err := json.Unmarshal(text, &answer); err != nil || len(answer.Result.Content) != 1 || answer.Result.IsError {
		t.Fatalf("%s: %s (%v)", version, text, err)
	}
	return answer.Result.Content[0].Text
}

// post sends a message and returns the answer, the last event if it is a
// stream.
func post(t *testing.T, url string, header http.Header, body string) ([]byte, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header.Clone()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range slices.Backward(bytes.Split(text, []byte("\n"))) {
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			text = data
			break
		}
	}
	return text, resp.Header
}
