package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// processGroup lists the plugin's process group, zombies left out, from /proc
// (proc_pid_stat(5)).
func processGroup() []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	group := syscall.Getpgrp()
	var all []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it is gone
		}
		// The name is in parentheses and may contain some itself.
		rest := string(text[strings.LastIndexByte(string(text), ')')+1:])
		var state string
		p := process{pid: pid}
		var pgrp int
		if _, err := fmt.Sscan(rest, &state, &p.parent, &pgrp); err == nil && pgrp == group && state != "Z" && state != "X" {
			all = append(all, p)
		}
	}
	return all
}
