package e2e

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// judgeClient lets the suite play servers for the host. For each scenario the
// suite runs a command with the server's address; ours is this test program,
// which starts a host for that server and drives it as the scenario wants.
func (s *suite) judgeClient(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range s.clientScenarios(t) {
		t.Run(of.revision+" "+of.scenario, func(t *testing.T) {
			t.Parallel()
			text, details, passed := s.run(t, []string{driverEnv + "=" + hermes},
				"client", "--command", program, "--scenario", of.scenario, "--spec-version", of.revision)
			s.note(of, verdict(t, of.scenario, passed, checks(t, details)[of.scenario]))
			if !passed || t.Failed() {
				t.Errorf("the suite is not content:\n%s", text)
			}
		})
	}
}

// clientRuns is how many scenarios the suite has for clients, each revision
// counted.
const clientRuns = 15

var listed = regexp.MustCompile(`(?m)^ +- ([\w-]+) \[([\d,-]+)\]$`)

// clientScenarios returns what the suite has for clients. Scenarios about
// authorization have a slash in their names and are not among them: the host
// authorizes itself with headers of the configuration alone. Neither are those
// of extensions, which have no revision.
func (s *suite) clientScenarios(t *testing.T) []verdictOf {
	var all []verdictOf
	for _, m := range listed.FindAllStringSubmatch(s.output(t, s.module("conformance/dist/index.js"), "list", "--client"), -1) {
		for revision := range strings.SplitSeq(m[2], ",") {
			of := verdictOf{asClient, revision, "", m[1]}
			s.note(of, notRun)
			all = append(all, of)
		}
	}
	if len(all) != clientRuns {
		t.Fatalf("the suite lists %d scenarios for clients, want %d: %v", len(all), clientRuns, all)
	}
	return all
}
