package orphan

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Table lists all processes, zombies left out, from /proc (proc_pid_stat(5)).
// What it can't read it leaves out.
func Table() []Process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it is gone
		}
		if p, ok := parseStat(pid, string(text)); ok {
			all = append(all, p)
		}
	}
	return all
}

// parseStat reads a line of /proc/PID/stat; false for a process that has ended.
func parseStat(pid int, text string) (Process, bool) {
	// The name is in parentheses and may contain some itself. After it come
	// the state, the parent, the group, and as the 20th field the start.
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return Process{}, false
	}
	p := Process{PID: pid}
	for i, to := range map[int]any{1: &p.Parent, 2: &p.Group, 19: &p.Start} {
		if _, err := fmt.Sscan(f[i], to); err != nil {
			return Process{}, false
		}
	}
	return p, true
}
