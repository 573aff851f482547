package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// caught says which tests failed; the texts are "–" for none.
type caught struct{ tests, simulation string }

const none = "–"

func (c caught) any() bool { return c.tests != none || c.simulation != none }

// suite runs the tests of breaker, supervisor and takeover, and the simulation over an
// overlay, "" for the code as it is. The error says that they could not run.
func suite(ctx context.Context, overlay string, seeds int) (caught, error) {
	by := caught{none, none}
	failed, _, err := test(ctx, overlay, "./breaker", "./host/supervisor", "./host/takeover")
	if err != nil {
		return by, err
	}
	if len(failed) > 0 {
		by.tests = "`" + failed[0] + "`"
		if n := len(failed) - 1; n > 0 {
			by.tests += fmt.Sprintf(" and %d more", n)
		}
	}
	failed, output, err := test(ctx, overlay, "./internal/simulation", fmt.Sprintf("-sim.seeds=%d", seeds))
	if err != nil {
		return by, err
	}
	if len(failed) > 0 {
		by.simulation = "yes"
		if m := seedLine.FindStringSubmatch(output); m != nil {
			by.simulation = "seed " + m[1]
		}
	}
	return by, nil
}

var seedLine = regexp.MustCompile(`(?m)\bseed (\d+)$`)

// test runs go test and returns the top-level tests that failed, or that were
// running when the program died, and what was printed.
func test(ctx context.Context, overlay string, args ...string) (failed []string, output string, err error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json", "-vet=off", "-count=1", "-timeout=90s", "-overlay=" + overlay}, args...)...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	end := cmd.Run()
	if ctx.Err() != nil {
		return nil, "", ctx.Err()
	}
	var text strings.Builder
	for line := range bytes.Lines(out.Bytes()) {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		text.WriteString(e.Output)
		name, _, _ := strings.Cut(e.Test, "/")
		switch {
		case e.Action == "build-fail":
			return nil, "", fmt.Errorf("it does not compile:\n%s%s", text.String(), stderr.String())
		case e.Action == "fail" && name != "" && !slices.Contains(failed, name):
			failed = append(failed, name)
		}
	}
	if end != nil && len(failed) == 0 {
		return nil, "", fmt.Errorf("%s failed, and no test did:\n%s%s", strings.Join(cmd.Args, " "), text.String(), stderr.String())
	}
	slices.Sort(failed)
	return failed, text.String(), nil
}

// overlay writes the broken file and the overlay that shows it, and returns the
// latter's name.
func (m mutation) overlay(dir string) (string, error) {
	text, err := m.apply()
	if err != nil {
		return "", err
	}
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	broken, overlay := dir+"/broken.go", dir+"/overlay.json"
	list, err := json.Marshal(map[string]map[string]string{"Replace": {root + "/" + m.file: broken}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(broken, text, 0o600); err != nil {
		return "", err
	}
	return overlay, os.WriteFile(overlay, list, 0o600)
}
