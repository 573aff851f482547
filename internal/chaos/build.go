//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// This file builds the programs under test: as they ship, but that the host
// also has package probe in it. No file of the source tree is touched.

const module = "github.com/hermes-host/hermes-host"

var programs = map[string]string{
	"hermes-host":            module + "/cmd/hermes-host",
	"hermes-transport-stdio": module + "/plugins/stdio",
	"hermes-transport-http":  module + "/plugins/http",
	"hermes-transport-sse":   module + "/plugins/sse",
}

// build makes the programs in dir, those that are not there already.
func build(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, pkg := range programs {
		out := filepath.Join(dir, name)
		if _, err := os.Stat(out); err == nil {
			continue
		}
		args := []string{"build", "-trimpath", "-buildvcs=false", "-o", out}
		if name == "hermes-host" {
			overlay, err := withProbe(ctx, dir, pkg)
			if err != nil {
				return err
			}
			args = append(args, "-overlay", overlay)
		}
		if msg, err := exec.CommandContext(ctx, "go", append(args, pkg)...).CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w\n%s", pkg, err, msg)
		}
	}
	return nil
}

// withProbe writes an overlay (see `go help build`) that adds a file to a
// package, and returns its path.
func withProbe(ctx context.Context, dir, pkg string) (string, error) {
	where, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", pkg).Output()
	if err != nil {
		return "", fmt.Errorf("finding %s (run this in the repository): %w", pkg, err)
	}
	added := filepath.Join(dir, "probe.go")
	if err := os.WriteFile(added, []byte("package main\n\nimport _ \""+module+"/internal/chaos/probe\"\n"), 0o600); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{
		"Replace": {filepath.Join(strings.TrimSpace(string(where)), "chaos_probe.go"): added},
	})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, overlay, 0o600)
}
