// Package orphan finds the processes that descend from one, and on Linux keeps
// those that lose their parent from getting out of sight.
//
// A process group is left by setsid, and a parent by being outlived: a daemon
// does both. On Linux a process can be made a home ([Adopt]) for what is
// orphaned below it; then all that it has ever started, and what that has
// started, is found by way of parents alone, however it was started. Other
// systems have process groups at most.
package orphan

// A Process is one entry of the system's process table.
type Process struct {
	PID, Parent, Group int

	// Start tells two processes apart that had the same PID one after the
	// other. 0 where the system's table does not say.
	Start uint64
}

// Below returns the processes in a table that descend from pid, parents before
// their children.
func Below(table []Process, pid int) []Process {
	children := map[int][]Process{}
	for _, p := range table {
		children[p.Parent] = append(children[p.Parent], p)
	}
	seen := map[int]bool{pid: true} // a table is no snapshot: it may have a circle
	var all []Process
	for next := children[pid]; len(next) > 0; next = next[1:] {
		if p := next[0]; !seen[p.PID] {
			seen[p.PID] = true
			all = append(all, p)
			next = append(next, children[p.PID]...)
		}
	}
	return all
}
