package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const zombie = 5 // SZOMB in sys/proc.h

// processGroup lists the plugin's process group, zombies left out.
func processGroup() []process {
	table, err := unix.SysctlKinfoProcSlice("kern.proc.pgrp", syscall.Getpgrp())
	if err != nil {
		return nil
	}
	var all []process
	for _, k := range table {
		if k.Proc.P_stat != zombie {
			all = append(all, process{pid: int(k.Proc.P_pid), parent: int(k.Eproc.Ppid)})
		}
	}
	return all
}
