//go:build unix

package main

import (
	"os"
	"syscall"
)

// leadsGroup reports whether the plugin leads its process group, as it does
// under the host.
func leadsGroup() bool { return syscall.Getpgrp() == os.Getpid() }

// signalPid sends a signal to a process that may be gone by now.
func signalPid(pid int, sig syscall.Signal) { _ = syscall.Kill(pid, sig) }
