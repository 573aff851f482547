package e2e

import (
	"fmt"
	"strings"
)

const conformanceIntro = `# Conformance

What the [official conformance suite](https://github.com/modelcontextprotocol/conformance)
(npm ` + "`@modelcontextprotocol/conformance@" + suiteVersion + "`" + `) says of the host. ` + "`TestConformance`" + `
in internal/e2e runs it, writes this file when it is asked to (` + "`-update`" + `), and
fails if the verdicts are others than those written here.

## The host as a server

Behind the host is the conformance server of the Go SDK, over stdio or over
HTTP, and the suite talks to the host: at ` + "`/mcp/everything`" + `, the server's own
endpoint, and at ` + "`/mcp`" + `, with ` + "`prefix = \"\"`" + ` for its only server.

That server speaks both eras, but behaves differently in each. For 2026-07-28 it
is started with ` + "`-stateless`" + `, or asked for that version with
` + "`protocol = \"2026-07-28\"`" + ` over stdio. For the older revisions it keeps sessions.

The last columns are the same server over stdio with one configuration for all
revisions: ` + "`protocol = \"2026-07-28\"` and `session = \"client\"`" + `. Clients of 2026-07-28
use its shared session, and the others have one of their own, in their version.

A warning is about something that the specification recommends.
`

const conformanceClient = `
## The host as a client

The suite plays the server, a host is started for it, and a plain client asks
of the host what the scenario is about. Scenarios about authorization are left
out: the host authorizes itself with headers of the configuration alone.
`

const conformanceNotes = `
## Notes

- The warning: the suite changes the tools twice in the same way. The second time
  nothing is different, and the host announces only what is.
`

// columns are the ways to the server, and from the suite to the host.
var columns = []string{"stdio /everything", "stdio ", "http /everything", "http ", "one configuration /everything", "one configuration "}

// document renders the verdicts.
func (s *suite) document() string {
	var b strings.Builder
	b.WriteString(conformanceIntro)
	titles := []string{"stdio, /mcp/everything", "stdio, /mcp", "http, /mcp/everything", "http, /mcp", "one configuration, /mcp/everything", "one configuration, /mcp"}
	for _, revision := range revisions {
		s.table(&b, asServer, revision, columns, titles)
	}
	b.WriteString(conformanceClient)
	for _, revision := range revisions {
		s.table(&b, asClient, revision, []string{""}, []string{"verdict"})
	}
	b.WriteString(conformanceNotes)
	return b.String()
}

func (s *suite) table(b *strings.Builder, side, revision string, ways, titles []string) {
	scenarios := s.order[side+revision]
	fmt.Fprintf(b, "\n### %s\n\n| scenario |", revision)
	for _, title := range titles {
		fmt.Fprintf(b, " %s |", title)
	}
	fmt.Fprintf(b, "\n|---|%s\n", strings.Repeat("---|", len(ways)))
	passed := make([]int, len(ways))
	for _, scenario := range scenarios {
		fmt.Fprintf(b, "| `%s` |", scenario)
		for i, way := range ways {
			verdict := s.verdicts[verdictOf{side, revision, way, scenario}]
			if strings.HasPrefix(verdict, "pass") {
				passed[i]++
			}
			fmt.Fprintf(b, " %s |", verdict)
		}
		b.WriteString("\n")
	}
	b.WriteString("| **passed** |")
	for _, n := range passed {
		fmt.Fprintf(b, " **%d of %d** |", n, len(scenarios))
	}
	b.WriteString("\n")
}
