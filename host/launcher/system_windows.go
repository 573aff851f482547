package launcher

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// This file is what Windows has instead of process groups: only the plugin
// itself is ended; what it started learns of that by its closed pipes.

// ownGroup keeps a console's Ctrl-C, which is meant for the host, from cmd.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
		_ = p.Release()
	}
}

func termGroup(int) {}
