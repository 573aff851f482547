//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A process is one of the system's. Its number may come to mean another; hold
// protects from that.
type process struct {
	pid, parent int
	args        []string
}

// program is the name of what it runs.
func (p process) program() string { return filepath.Base(p.args[0]) }

// of returns the server that the process is, "" if it is none.
func (p process) of() string {
	for i, arg := range p.args[:len(p.args)-1] {
		if arg == "-name" {
			return p.args[i+1]
		}
	}
	return ""
}

// what says what the process is, the same for its successor.
func (p process) what() string { return strings.TrimSpace(p.program() + " " + p.of()) }

// processes returns all that run a program and are not zombies.
func processes() []process {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var all []process
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if p, ok := lookAt(pid); ok {
			all = append(all, p)
		}
	}
	return all
}

// lookAt returns a process, and false if it has ended.
func lookAt(pid int) (process, bool) {
	args, err1 := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	stat, err2 := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err1 != nil || err2 != nil || len(args) == 0 {
		return process{}, false
	}
	// pid (name) state parent …; the name may hold anything. See proc(5).
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	parent, _ := strconv.Atoi(fields[1])
	return process{pid, parent, strings.Split(strings.TrimRight(string(args), "\x00"), "\x00")}, true
}

// below returns those of all that come from pid.
func below(all []process, pid int) []process {
	var found []process
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		for _, p := range all {
			if p.parent == queue[0] {
				found = append(found, p)
				queue = append(queue, p.pid)
			}
		}
	}
	return found
}

// A held process is signalled through a descriptor, so that never another one
// is hit.
type held struct{ fd int }

// hold takes hold of a process, unless it has ended.
func (p process) hold() (held, bool) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return held{}, false
	}
	if now, ok := lookAt(p.pid); !ok || now.what() != p.what() {
		unix.Close(fd)
		return held{}, false
	}
	return held{fd}, true
}

// signal reports whether the process was still there.
func (h held) signal(sig unix.Signal) bool { return unix.PidfdSendSignal(h.fd, sig, nil, 0) == nil }

func (h held) release() { unix.Close(h.fd) }

// descriptors returns how many files a process has open.
func descriptors(pid int) int {
	entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(entries)
}

// status returns a number from /proc/PID/status: Threads, or VmRSS and
// RssAnon in KiB.
func status(pid int, key string) int {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(data)) {
		if v, ok := strings.CutPrefix(line, key+":"); ok {
			n, _ := strconv.Atoi(strings.Fields(v)[0])
			return n
		}
	}
	return 0
}

// connectedTo returns those of some processes that have a TCP connection to a
// port of the loopback interface.
func connectedTo(some []process, port int) []process {
	inodes := map[string]bool{}
	table, _ := os.ReadFile("/proc/net/tcp")
	for line := range strings.Lines(string(table)) {
		// sl local remote state … inode; addresses are hexadecimal, IPv4
		// ones in host order. See proc(5).
		if f := strings.Fields(line); len(f) > 9 && f[2] == fmt.Sprintf("0100007F:%04X", port) {
			inodes["socket:["+f[9]+"]"] = true
		}
	}
	var found []process
	for _, p := range some {
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.pid))
		for _, link := range links {
			if to, err := os.Readlink(link); err == nil && inodes[to] {
				found = append(found, p)
				break
			}
		}
	}
	return found
}
