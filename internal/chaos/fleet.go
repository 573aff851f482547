//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// This file says which servers there are and how the host is configured.

// legacy is the newest protocol with sessions, stateless the first without.
const (
	legacy    = "2025-11-25"
	stateless = "2026-07-28"
)

// Settings of the servers that faults are made to: short, so that a short run
// sees many recoveries.
const (
	callWait   = 2 * time.Second
	callLimit  = 6 * time.Second
	connect    = 5 * time.Second
	list       = 5 * time.Second
	closing    = 3 * time.Second
	cooldown   = 3 * time.Second
	reviveMax  = 4 * time.Second
	pluginHung = 20 * time.Second // the launcher's health check: every 15 s, and 5 s to answer
	idle       = 15 * time.Second // of clients' sessions
)

// What is promised of times, by these settings.
const (
	slack = 3 * time.Second // for a busy machine

	// answerBound is for a call that waits for a session, is sent, loses it at
	// the last moment, waits again and is sent again.
	answerBound = 2*(callWait+callLimit) + callWait + slack

	// readyBound is for all servers to be ready once faults have stopped: in
	// the worst case a hung plugin is found, what it held is closed, an attempt
	// that has begun runs into its limits, and the next one waits.
	readyBound = pluginHung + closing + connect + list + reviveMax + slack

	// callableBound is for every client to have reached every server after
	// that: breakers may have to be closed by a probe.
	callableBound = 2*cooldown + callLimit + slack
)

// A server is one under the host.
type server struct {
	name, transport string
	sessions        bool      // it speaks no protocol without sessions
	steady          bool      // no faults are made to it
	upstream        *upstream // nil for stdio
	proxy           *proxy    // between the host and upstream; nil for stdio
}

// servers returns twenty over the transports of the house, one steady one of
// each among them, and two behind a third party's plugin.
func servers() []*server {
	var all []*server
	for _, group := range []struct {
		transport string
		count     int
	}{{"stdio", 7}, {"http", 6}, {"sse", 4}, {"line", 2}} {
		for i := range group.count {
			all = append(all, &server{
				name:      fmt.Sprintf("%s%d", group.transport, i+1),
				transport: group.transport,
				sessions:  i%2 == 0,
			})
		}
		if group.transport != "line" {
			all = append(all, &server{name: "steady-" + group.transport, transport: group.transport, steady: true})
		}
	}
	return all
}

// program is the command line of a server's own process.
func (s *server) program(dir string) []string {
	args := []string{"server", "-name", s.name, "-transport", s.transport, "-writes", filepath.Join(dir, "writes")}
	if s.transport != "stdio" {
		args = append(args, "-socket", s.socket(dir))
	}
	if s.sessions {
		args = append(args, "-sessions")
	}
	return args
}

func (s *server) socket(dir string) string { return filepath.Join(dir, s.name+".sock") }

// configuration is the host's. Self is this program.
func configuration(all []*server, self, dir string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "listen \"http\" {\n  address = \"127.0.0.1:0\"\n  session_idle_timeout = %q\n}\n", idle)
	fmt.Fprintf(&b, "log {\n  level = \"info\"\n  format = \"json\"\n}\n")
	fmt.Fprintf(&b, "plugin \"line\" {\n  command = %q\n  args = [\"plugin\"]\n}\n", self)
	for _, s := range all {
		fmt.Fprintf(&b, "server %q {\n", s.name)
		if s.steady {
			// The others share a plugin per kind, which gets its share of
			// faults.
			fmt.Fprintf(&b, "  isolate = true\n")
			fmt.Fprintf(&b, "  timeouts {\n    call = %q\n  }\n", callLimit)
		} else {
			fmt.Fprintf(&b, "  call_wait = %q\n  keep_alive = \"2s\"\n", callWait)
			fmt.Fprintf(&b, "  timeouts {\n    connect = %q\n    call = %q\n    list = %q\n    health = \"2s\"\n    close = %q\n  }\n",
				connect, callLimit, list, closing)
			fmt.Fprintf(&b, "  retry {\n    base = \"100ms\"\n    max = \"2s\"\n  }\n")
			fmt.Fprintf(&b, "  revive {\n    min = \"2s\"\n    max = %q\n  }\n", reviveMax)
			fmt.Fprintf(&b, "  crash_loop {\n    deaths = 50\n    window = \"1m\"\n  }\n")
			fmt.Fprintf(&b, "  breaker {\n    cooldown = %q\n  }\n", cooldown)
		}
		fmt.Fprintf(&b, "  transport %q {\n", s.transport)
		switch s.transport {
		case "stdio":
			fmt.Fprintf(&b, "    command = %q\n    args = [", self)
			for _, arg := range s.program(dir) {
				fmt.Fprintf(&b, "%q, ", arg)
			}
			fmt.Fprintf(&b, "]\n")
		case "line":
			fmt.Fprintf(&b, "    address = %q\n", s.proxy.address())
		default:
			fmt.Fprintf(&b, "    url = \"http://%s/\"\n", s.proxy.address())
		}
		fmt.Fprintf(&b, "  }\n}\n")
	}
	return b.String()
}
