//go:build unix

package launcher

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// This file is what all Unix systems have in common: process groups and file
// locks.

const openNoFollow = unix.O_NOFOLLOW

func lockFile(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errLocked
	}
	return err
}

// ours reports whether a directory is one, and belongs to this user.
func ours(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// ownGroup makes cmd the leader of a new process group.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// killGroup and termGroup signal the group whose leader is pid. The caller
// makes sure that pid has not been reaped: until then no other process can have
// its id.
func killGroup(pid int) { _ = unix.Kill(-pid, unix.SIGKILL) }
func termGroup(pid int) { _ = unix.Kill(-pid, unix.SIGTERM) }
