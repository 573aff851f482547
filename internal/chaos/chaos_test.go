//go:build linux

package main

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestChaos is a short run of the program as it is: real processes, some
// hundred calls, several dozen faults.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes for half a minute")
	}
	program := filepath.Join(t.TempDir(), "chaos")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), program, "-for", "15s", "-warm", "3s", "-gap", "250ms", "-pace", "500ms").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
