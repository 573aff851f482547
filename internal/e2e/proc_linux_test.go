package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process is one of the system's, held so that its number cannot come to
// mean another.
type process struct {
	pid, parent int
	name        string
	fd          int // a pidfd; readable once the process has ended
}

// String returns name and number.
func (p process) String() string { return fmt.Sprintf("%s (%d)", p.name, p.pid) }

// descendants returns all processes that come from pid.
func descendants(t *testing.T, pid int) []process {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	children := map[int][]process{}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		// pid (name) state parent …; the name may hold anything. See proc(5).
		head, tail, _ := strings.Cut(string(text), " (")
		end := strings.LastIndex(tail, ") ")
		fields := strings.Fields(tail[end+2:])
		child, err1 := strconv.Atoi(head)
		parent, err2 := strconv.Atoi(fields[1])
		if err1 != nil || err2 != nil {
			t.Fatalf("%s is %q", path, text)
		}
		children[parent] = append(children[parent], process{pid: child, parent: parent, name: tail[:end]})
	}
	var found []process
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		for _, p := range children[queue[0]] {
			fd, err := unix.PidfdOpen(p.pid, 0)
			if err != nil {
				continue // it has ended meanwhile
			}
			t.Cleanup(func() { unix.Close(fd) })
			p.fd = fd
			found = append(found, p)
			queue = append(queue, p.pid)
		}
	}
	return found
}

// ended reports whether the process ends before a time.
func (p process) ended(t *testing.T, before time.Time) bool {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, max(0, int(time.Until(before).Milliseconds())))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return n == 1
	}
}

// kill sends SIGKILL.
func (p process) kill(t *testing.T) {
	t.Helper()
	if err := unix.PidfdSendSignal(p.fd, unix.SIGKILL, nil, 0); err != nil {
		t.Fatal(err)
	}
}

// allEnded fails the test for each process that is still there after a while.
func allEnded(t *testing.T, processes []process, within time.Duration) {
	t.Helper()
	deadline := time.Now().Add(within)
	for _, p := range processes {
		if !p.ended(t, deadline) {
			t.Errorf("%v is still there after %v", p, within)
		}
	}
}

// commandLine returns a process's command line, "" if it has ended.
func commandLine(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(string(text), "\x00", " ")
}
