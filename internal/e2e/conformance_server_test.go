package e2e

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// A way is one from the host to the conformance server, and the revisions that
// it is judged for.
//
// The server speaks both eras, but not to one client: over HTTP a flag decides,
// and over stdio what the client begins with. Asked in the middle of a call, it
// answers differently in each, and the suite wants to see that.
type way struct {
	name      string
	http      bool
	settings  string // the server's in the host
	revisions []string
}

var ways = []way{
	{"stdio, sessions", false, "", revisions[:2]},
	{"stdio, stateless", false, newerFirst, revisions[2:]},
	{"http, sessions", true, "", revisions[:2]},
	{"http, stateless", true, "", revisions[2:]},
	{"one configuration", false, newerFirst + "  session = \"client\"\n", revisions},
}

const newerFirst = "  protocol = \"2026-07-28\"\n"

// endpoints are the two of a host with one server.
var endpoints = []string{"/everything", ""}

// wanted is how many scenarios the suite has for each revision.
var wanted = map[string]int{"2025-06-18": 27, "2025-11-25": 33, "2026-07-28": 40}

// judgeServers runs the suite against the host, with the conformance server
// behind it in every way.
func (s *suite) judgeServers(t *testing.T) {
	for _, w := range ways {
		t.Run(strings.ReplaceAll(w.name, ", ", "/"), func(t *testing.T) {
			t.Parallel()
			for _, endpoint := range endpoints {
				host := run(t, w.config(t), "everything") // the suite changes what the server offers
				for _, revision := range w.revisions {
					t.Run(revision+" at mcp"+endpoint, func(t *testing.T) { s.judgeServer(t, host, w, endpoint, revision) })
				}
			}
		})
	}
}

// config starts the server, if it is one over HTTP, and returns the host's
// configuration for it.
func (w way) config(t *testing.T) string {
	program, err := conformanceServer()
	if err != nil {
		t.Fatal(err)
	}
	transport := fmt.Sprintf("transport \"stdio\" {\n    command = %q\n  }", program)
	if w.http {
		address := "127.0.0.1:" + freePort(t)
		stateless := fmt.Sprintf("-stateless=%t", w.revisions[0] >= "2026-07-28")
		startProgram(t, exec.Command(program, "-http="+address, stateless)).
			await(0, "the conformance server's address", func(line) bool { return true })
		transport = fmt.Sprintf("transport \"http\" {\n    url = \"http://%s\"\n  }", address)
	}
	return fmt.Sprintf("server \"everything\" {\n  prefix = \"\"\n%s  %s\n}\n", w.settings, transport)
}

var summary = regexp.MustCompile(`(?m)^([✓✗]) ([\w-]+): \d+ passed, \d+ failed`)

func (s *suite) judgeServer(t *testing.T, host *runningHost, w way, endpoint, revision string) {
	text, details, passed := s.run(t, nil, "server", "--url", host.url+endpoint, "--suite", "all", "--spec-version", revision)
	found := checks(t, details)
	scenarios := summary.FindAllStringSubmatch(text, -1)
	for _, m := range scenarios {
		transport, _, _ := strings.Cut(w.name, ",")
		s.note(verdictOf{asServer, revision, transport + " " + endpoint, m[2]}, verdict(t, m[2], m[1] == "✓", found[m[2]]))
	}
	if len(scenarios) != wanted[revision] {
		t.Errorf("%d scenarios ran, want %d", len(scenarios), wanted[revision])
	}
	if !passed || t.Failed() {
		t.Errorf("the suite is not content:\n%s", text)
	}
}
