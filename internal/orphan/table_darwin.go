package orphan

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const zombie = 5 // SZOMB in sys/proc.h

// Table lists this process's group, zombies left out.
func Table() []Process {
	table, err := unix.SysctlKinfoProcSlice("kern.proc.pgrp", syscall.Getpgrp())
	if err != nil {
		return nil
	}
	var all []Process
	for _, k := range table {
		if k.Proc.P_stat != zombie {
			all = append(all, Process{PID: int(k.Proc.P_pid), Parent: int(k.Eproc.Ppid), Group: syscall.Getpgrp()})
		}
	}
	return all
}
