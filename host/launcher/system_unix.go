//go:build unix

package launcher

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// This file is what all Unix systems have in common: process groups.

// ownGroup makes cmd the leader of a new process group.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// killGroup and termGroup signal the group whose leader is pid. The caller
// makes sure that pid has not been reaped: until then no other process can have
// its id.
func killGroup(pid int) { _ = unix.Kill(-pid, unix.SIGKILL) }
func termGroup(pid int) { _ = unix.Kill(-pid, unix.SIGTERM) }
