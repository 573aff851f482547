package main

import "os"

// process is one entry of the system's process table.
type process struct{ pid, parent int }

// groupMembers returns the other processes in the plugin's process group.
func groupMembers() []int {
	var all []int
	for _, p := range processGroup() {
		if p.pid != os.Getpid() {
			all = append(all, p.pid)
		}
	}
	return all
}

// descendants returns the processes below pid that are in the plugin's group,
// as long as pid itself still runs.
func descendants(pid int) []int {
	children := map[int][]int{}
	for _, p := range processGroup() {
		children[p.parent] = append(children[p.parent], p.pid)
	}
	var all []int
	for next := children[pid]; len(next) > 0; next = next[1:] {
		all = append(all, next[0])
		next = append(next, children[next[0]]...)
	}
	return all
}
