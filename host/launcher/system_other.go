//go:build !linux

package launcher

import "os/exec"

// awaitExit returns when a process has exited and was reaped. As long as its
// group has members the group's id is not given to another process; when it has
// none, an id that was given away in the microseconds until the group is
// signalled would also have to be that of a new group's leader.
func awaitExit(cmd *exec.Cmd) { _ = cmd.Wait() }
