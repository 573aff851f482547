package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What a server's processes may leave behind: nothing, whatever ended them.

var sleepers atomic.Int64

// nested is a block of a server that has a shell above it, as with npx, and a
// helper beside it that nobody waits for. helpers finds the latter.
func (s *scripted) nested(settings string) (block string, helpers func() []process) {
	// The fraction tells this helper from all others.
	mark := fmt.Sprintf("1000.%d%04d", os.Getpid(), sleepers.Add(1))
	block = s.below("sleep "+mark+" &", settings)
	return block, func() []process { return running(s.t, "sleep "+mark) }
}

// daemon is a block of a server that starts a daemon, which leaves the process
// group, the session and its parent. daemons finds it.
func (s *scripted) daemon(settings string) (block string, daemons func() []process) {
	mark := fmt.Sprintf("1000.%d%04d", os.Getpid(), sleepers.Add(1))
	block = s.below("setsid sh -c 'sleep "+mark+" &' </dev/null >/dev/null 2>&1;", settings)
	return block, func() []process { return running(s.t, "sleep "+mark) }
}

// below is a block of a server below a shell, which runs a script first.
func (s *scripted) below(script, settings string) string {
	return fmt.Sprintf(`
server "target" {
%s
  transport "stdio" {
    command = "sh"
    args    = ["-c", %q]
    env     = { %s = %q, %s = "stdio" }
  }
}
`, settings, script+" "+self(s.t)+"; exit $?", scriptEnv, s.url, scriptKind)
}

// running returns the processes of the machine with a text in their command
// line, shells apart, that have not ended.
func running(t *testing.T, text string) []process {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var found []process
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			t.Fatal(err)
		}
		line := commandLine(pid)
		if !strings.Contains(line, text) || strings.HasPrefix(line, "sh ") {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended meanwhile
		}
		t.Cleanup(func() { unix.Close(fd) })
		found = append(found, process{pid: pid, name: strings.TrimSpace(line), fd: fd})
	}
	return found
}

// TestNoTreeIsLeft: a shell, a server below it and a helper that holds its
// pipes go together, however the session ends.
func TestNoTreeIsLeft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  func(*testing.T, *world)
	}{
		{"the server is killed", func(_ *testing.T, w *world) { w.server.kill() }},
		{"the plugin is killed", func(t *testing.T, w *world) { w.find(t, "hermes-transport-stdio").kill(t) }},
		{"an operator reconnects", func(_ *testing.T, w *world) { w.operator("reconnect", "target") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := &world{server: startScripted(t, "stdio")}
			block, helpers := w.server.nested(numbers{}.String())
			w.runningHost = run(t, block, "target")
			old := helpers()
			if len(old) != 1 {
				t.Fatalf("%d helpers run, want 1", len(old))
			}
			plugin := w.find(t, "hermes-transport-stdio")
			below := append(descendants(t, plugin.pid), plugin)
			from := w.mark()
			c.end(t, w)
			w.awaitState(from, "target", "ready")
			allEnded(t, append(below, old...), 3*time.Second)
			if now := helpers(); len(now) != 1 {
				t.Errorf("%d helpers run after it, want that of the new session: %v", len(now), now)
			}
			if code := w.stop(); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
			if now := helpers(); len(now) != 0 {
				t.Errorf("left behind after the end: %v", now)
			}
		})
	}
}

// TestNoDaemonIsLeft: nor does what has made a session of its own stay, whoever
// is killed.
func TestNoDaemonIsLeft(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("no setsid here")
	}
	for _, c := range []struct {
		name string
		end  func(*testing.T, *world)
		back bool // the server comes back
	}{
		{"the server is killed", func(_ *testing.T, w *world) { w.server.kill() }, true},
		{"the plugin is killed", func(t *testing.T, w *world) { w.find(t, "hermes-transport-stdio").kill(t) }, true},
		{"an operator reconnects", func(_ *testing.T, w *world) { w.operator("reconnect", "target") }, true},
		{"the host is killed", killHost, false},
		{"the host is killed while the plugin is stopped", func(t *testing.T, w *world) {
			plugin := w.find(t, "hermes-transport-stdio")
			if err := unix.PidfdSendSignal(plugin.fd, unix.SIGSTOP, nil, 0); err != nil {
				t.Fatal(err)
			}
			killHost(t, w)
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := &world{server: startScripted(t, "stdio")}
			block, daemons := w.server.daemon(numbers{}.String())
			w.runningHost = run(t, block, "target")
			old := daemons()
			if len(old) != 1 {
				t.Fatalf("%d daemons run, want 1", len(old))
			}
			from := w.mark()
			c.end(t, w)
			if !c.back {
				allEnded(t, old, 10*time.Second)
				return
			}
			w.awaitState(from, "target", "ready")
			allEnded(t, old, 10*time.Second)
			if code := w.stop(); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
			if now := daemons(); len(now) != 0 {
				t.Errorf("left behind after the end: %v", now)
			}
		})
	}
}

func killHost(t *testing.T, w *world) {
	if err := w.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
}

// TestFailedStartsLeaveNothing: attempts that fail leave nothing either.
func TestFailedStartsLeaveNothing(t *testing.T) {
	t.Parallel()
	server := startScripted(t, "stdio")
	server.set(down)
	block, helpers := server.nested(numbers{budget: 5}.String())
	if _, err := exec.LookPath("setsid"); err == nil {
		block, helpers = server.daemon(numbers{budget: 5}.String())
	}
	host := run(t, block)
	host.awaitState(0, "target", "parked")
	if begun, _, _ := server.counts(); begun != 5 {
		t.Errorf("%d attempts, want the budget of 5", begun)
	}
	allEnded(t, helpers(), 3*time.Second)
}

// TestMuteServer: a server that reads and never answers is tried sixteen times.
// There is never more than one process of it, and the host's descriptors stay
// the same.
func TestMuteServer(t *testing.T) {
	t.Parallel()
	server := startScripted(t, "stdio")
	server.set(hanging)
	host := run(t, server.block("target", numbers{connect: "1s", base: "10ms", budget: 1000}.String()))
	descriptors := func() int {
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", host.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	early := 0
	for n := 1; n <= 16; n++ {
		server.await(t, fmt.Sprintf("attempt %d", n), func() bool { return server.begun >= n })
		servers := 0
		for _, p := range descendants(t, host.cmd.Process.Pid) {
			if strings.HasPrefix(commandLine(p.pid), self(t)) {
				servers++
			}
		}
		if servers > 1 {
			t.Errorf("%d processes of the server at attempt %d", servers, n)
		}
		if n == 4 {
			early = descriptors()
		}
	}
	// One attempt needs a few, which may be open or not in this moment.
	if late := descriptors(); late > early+10 {
		t.Errorf("%d descriptors after 4 attempts, %d after 16", early, late)
	}
}

// TestEightThatTakeTheirTime: eight servers that ignore the end of their input
// and SIGTERM end side by side, not one after the other. Each takes 4.3 s, all of
// them 4.6 s on an idle machine: no other test of this package runs beside it.
func TestEightThatTakeTheirTime(t *testing.T) {
	var config strings.Builder
	var names []string
	for i := range 8 {
		name := fmt.Sprintf("slow%d", i)
		names = append(names, name)
		fmt.Fprintf(&config, "server %q {\n  transport \"stdio\" {\n    command = \"sh\"\n    args = [\"-c\", %q]\n  }\n}\n",
			name, "trap '' TERM; "+hermes+" demo-server; sleep 1000")
	}
	host := run(t, config.String(), names...)
	below := descendants(t, host.cmd.Process.Pid)
	start := time.Now()
	if code := host.stop(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if took := time.Since(start); took > 7*time.Second {
		t.Errorf("the end took %v", took)
	}
	allEnded(t, below, 0)
}

// TestHangingServerDelaysNobody: a server whose start hangs delays neither the
// lists nor the calls of the others.
func TestHangingServerDelaysNobody(t *testing.T) {
	t.Parallel()
	hung, good := startScripted(t, "http"), startScripted(t, "stdio")
	hung.set(hanging)
	host := run(t, hung.block("hung", "")+good.block("good", ""), "good")
	client := host.connect("", nil)
	if _, err := client.ListTools(t.Context(), nil); err != nil { // the first waits a moment for servers that start
		t.Fatal(err)
	}
	start := time.Now()
	for range 20 {
		tools, err := client.ListTools(t.Context(), nil)
		if err != nil || len(tools.Tools) != 3 {
			t.Fatalf("%d tools, %v", len(tools.Tools), err)
		}
		callText(t, client, "good__write", nil)
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("twenty lists and calls took %v", took)
	}
}
