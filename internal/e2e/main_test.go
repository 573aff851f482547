// Package e2e tests the programs as they ship: it builds the host and its
// plugins, runs them, and talks to them as their users do.
//
// Some tests use MCP servers and clients from npm, which `make peers` installs
// into testdata/peers. Where they are missing those tests skip with one line;
// with CI=true that is a failure.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

var (
	binDir string // holds the programs under test
	hermes string // the host
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(upstreamEnv); kind != "" {
		serveUpstream(kind)
		return
	}
	if serveScript() || serveEra() || serveWatch() || serveBurst() {
		return
	}
	if os.Getenv(driverEnv) != "" {
		drive()
		return
	}
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "hermes-e2e-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	binDir = dir
	exe := ""
	if runtime.GOOS == "windows" {
		exe = ".exe"
	}
	hermes = filepath.Join(dir, "hermes-host"+exe)
	for program, source := range map[string]string{
		"hermes-host":            "./cmd/hermes-host",
		"hermes-transport-stdio": "./plugins/stdio",
		"hermes-transport-http":  "./plugins/http",
		"hermes-transport-sse":   "./plugins/sse",
	} {
		build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", filepath.Join(dir, program+exe), source)
		build.Dir = repository()
		if out, err := build.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("building %s: %w\n%s", program, err, out)
		}
	}
	return m.Run(), nil
}

// repository returns the root of the source tree.
func repository() string {
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err)
	}
	return dir
}

// peers is where the npm packages are.
func peers(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(repository(), "internal", "e2e", "testdata", "peers")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", ".installed")); err == nil {
		return dir
	}
	const what = "the npm peers are not installed; `make peers` installs them where npm is present"
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	sayOnce.Do(func() { fmt.Fprintln(os.Stderr, "e2e: skipping the tests with npm's MCP servers and clients:", what) })
	t.Skip(what)
	return ""
}

var sayOnce sync.Once
