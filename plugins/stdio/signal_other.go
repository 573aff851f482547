//go:build !unix

package main

import "syscall"

// leadsGroup reports false: there are no process groups here.
func leadsGroup() bool { return false }

// signalPid does nothing: there are no signals here.
func signalPid(int, syscall.Signal) {}
