package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// memory is resident memory in MiB.
type memory struct{ host, plugin float64 }

// usage is what the host needed in one run.
type usage struct {
	idle, loaded memory
	cpu          float64 // seconds per 10,000 calls
	recoveries   []recovered
}

type recovered struct {
	of   string
	took []time.Duration
}

// tree is the process tree below one pid, from /proc.
type tree struct{ root int }

// plugins returns the plugin processes of the host.
func (t tree) plugins() []int {
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if f := stat(pid); len(f) > 1 && f[1] == strconv.Itoa(t.root) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// memory returns what the host and its largest plugin hold.
func (t tree) memory() memory {
	m := memory{host: resident(t.root)}
	for _, pid := range t.plugins() {
		m.plugin = max(m.plugin, resident(pid))
	}
	return m
}

// cpu returns the processor time that host and plugins have used.
func (t tree) cpu() time.Duration {
	total := cpuTime(t.root)
	for _, pid := range t.plugins() {
		total += cpuTime(pid)
	}
	return total
}

// stat returns the fields of /proc/PID/stat after the command's name, which
// may hold spaces: state, ppid, ….
func stat(pid int) []string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	return strings.Fields(rest)
}

// cpuTime returns user and system time; the kernel counts in 1/100 s.
func cpuTime(pid int) time.Duration {
	f := stat(pid)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

func resident(pid int) float64 { return status(pid, "VmRSS:") }

// status returns a size from /proc/PID/status in MiB, 0 if it is not there.
func status(pid int, name string) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if v, ok := strings.CutPrefix(line, name); ok {
			kib, _ := strconv.ParseFloat(strings.Fields(v)[0], 64)
			return kib / 1024
		}
	}
	return 0
}
