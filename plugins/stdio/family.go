package main

import (
	"os"
	"syscall"

	"github.com/hermes-host/hermes-host/internal/orphan"
)

// Which processes belong to a server: those below it, and when it has gone
// those that it has left behind. On Linux the plugin is the home of what is
// orphaned below it, so that these are found whatever process group or session
// they have made for themselves; on macOS they are those of the plugin's
// process group.

// descendants returns the processes below pid, as long as that still runs.
func descendants(pid int) []orphan.Process { return orphan.Below(orphan.Table(), pid) }

// survivors returns the processes that belong to the server and still run. If
// it is the only one of this plugin, these are all that the plugin has below it
// or in a process group of its own. Else they are those of family, which was
// below the server, and what they have below them. An orphan that was not in
// the family is nobody's then, and goes with the last server of the plugin.
func (c *conn) survivors(family []orphan.Process) []orphan.Process {
	table := orphan.Table()
	var left []orphan.Process
	known := map[int]bool{os.Getpid(): true}
	add := func(all ...orphan.Process) {
		for _, p := range all {
			if !known[p.PID] {
				known[p.PID] = true
				left = append(left, p)
			}
		}
	}
	if c.owner.live.Load() > 1 {
		for _, p := range table {
			for _, f := range family {
				if p.PID == f.PID && p.Start == f.Start {
					add(p)
					add(orphan.Below(table, p.PID)...)
				}
			}
		}
		return left
	}
	add(orphan.Below(table, os.Getpid())...)
	for _, p := range table {
		if leadsGroup() && p.Group == os.Getpid() {
			add(p)
		}
	}
	return left
}

// sweepRounds bounds the fight against what forks as fast as it is killed.
const sweepRounds = 10

// kill kills what survives, again for what was forked in between.
func (c *conn) kill(left []orphan.Process) {
	killed := map[orphan.Process]bool{}
	for range sweepRounds {
		fresh := false
		for _, p := range left {
			key := orphan.Process{PID: p.PID, Start: p.Start}
			fresh = fresh || !killed[key]
			killed[key] = true
			signalPid(p.PID, syscall.SIGKILL)
		}
		if !fresh {
			return
		}
		left = c.survivors(left)
	}
}
