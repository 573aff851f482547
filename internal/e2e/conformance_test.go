package e2e

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The official conformance suite, from npm, judges the host from both sides: as
// a server, with the Go SDK's conformance server behind it, and as a client of
// the servers that the suite itself plays. docs/conformance.md has the verdicts;
// the test fails if they are others than those of the run.

var update = flag.Bool("update", false, "write the documents that tests compare with what they find")

const suiteVersion = "0.2.0-alpha.12" // as in testdata/peers/package.json

// revisions are the versions of the protocol that the suite has scenarios for.
var revisions = []string{"2025-06-18", "2025-11-25", "2026-07-28"}

// A suite runs the official suite's scenarios and gathers their verdicts.
type suite struct {
	npm
	mu       sync.Mutex
	verdicts map[verdictOf]string
	order    map[string][]string // the scenarios of a side and a revision, as the suite runs them
}

// verdictOf is what a verdict is about. The way is that of the host to the
// server, or of the client to the host.
type verdictOf struct{ side, revision, way, scenario string }

const (
	asServer = "server"
	asClient = "client"
)

func TestConformance(t *testing.T) {
	s := &suite{npm: npmPeers(t), verdicts: map[verdictOf]string{}, order: map[string][]string{}}
	complete := t.Run("all", func(t *testing.T) {
		t.Run("server", s.judgeServers)
		t.Run("client", s.judgeClient)
	})
	if complete && s.complete() {
		s.compare(t)
	}
}

// complete reports whether there is a verdict for everything: -run may have
// chosen a part.
func (s *suite) complete() bool {
	judged := 0
	for _, verdict := range s.verdicts {
		if verdict == notRun {
			return false
		}
		judged++
	}
	total := clientRuns
	for _, n := range wanted {
		total += n * len(columns)
	}
	return judged == total
}

const notRun = "not run"

// run executes the suite's command line and returns what it printed, and where
// the details of its checks are.
func (s *suite) run(t *testing.T, env []string, args ...string) (text, details string, passed bool) {
	t.Helper()
	patience := fmt.Sprint((2 * patience).Milliseconds()) // with a scenario: several run at a time here
	details = t.TempDir()
	cmd := exec.CommandContext(t.Context(), s.node, append([]string{s.module("conformance/dist/index.js")}, append(args, "--timeout", patience, "--output-dir", details)...)...)
	cmd.Env = append(environment(t), env...)
	cmd.Dir = details
	out, err := cmd.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		t.Fatal(err)
	}
	return string(out), details, err == nil
}

// note keeps a verdict. Scenarios come in the suite's order.
func (s *suite) note(of verdictOf, verdict string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verdicts[of] = verdict
	key := of.side + of.revision
	if !slices.Contains(s.order[key], of.scenario) {
		s.order[key] = append(s.order[key], of.scenario)
	}
}

// A check is one of a scenario's, as the suite writes it down.
type check struct {
	ID           string
	Status       string
	ErrorMessage string
	Details      json.RawMessage
}

var stamp = regexp.MustCompile(`-\d{4}-\d\d-\d\dT[\dTZ:.-]+$`)

// checks reads what the suite found in each scenario.
func checks(t *testing.T, details string) map[string][]check {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(details, "*", "checks.json"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]check{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var found []check
		if err := json.Unmarshal(text, &found); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		scenario := stamp.ReplaceAllString(strings.TrimPrefix(filepath.Base(filepath.Dir(file)), "server-"), "")
		all[scenario] = found
	}
	return all
}

// verdict is a scenario's in a few words: it fails with one check.
func verdict(t *testing.T, scenario string, passed bool, found []check) string {
	t.Helper()
	var warnings []string
	for _, c := range found {
		switch c.Status {
		case "FAILURE":
			t.Errorf("%s: %s: %s %.500s", scenario, c.ID, c.ErrorMessage, c.Details)
			passed = false
		case "WARNING":
			warnings = append(warnings, c.ID)
		}
	}
	switch {
	case !passed:
		return "fail"
	case warnings != nil:
		return "pass, with a warning: " + strings.Join(warnings, ", ")
	}
	return "pass"
}

// conformanceServer builds the Go SDK's conformance server, a program of the
// module that go.mod pins.
var conformanceServer = sync.OnceValues(func() (string, error) {
	program := filepath.Join(binDir, "conformance-server")
	build := exec.Command("go", "build", "-o", program, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
	build.Dir = repository()
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the conformance server: %w\n%s", err, out)
	}
	return program, nil
})

// compare holds the verdicts against docs/conformance.md.
func (s *suite) compare(t *testing.T) {
	file := filepath.Join(repository(), "docs", "conformance.md")
	text := s.document()
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(was) == text {
		return
	}
	lines := strings.Split(string(was), "\n")
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); !slices.Contains(lines, line) {
			t.Errorf("docs/conformance.md does not say: %s", line)
		}
	}
	t.Error("docs/conformance.md is not what this run found; `go test ./internal/e2e -run TestConformance -update` writes it")
}
