//go:build !linux

package orphan

import (
	"errors"
	"os/exec"
)

// A Home adopts what is orphaned below this process. This system has none.
type Home struct{}

// Adopt fails on this system.
func Adopt() (*Home, error) { return nil, errors.ErrUnsupported }

// Start starts a process.
func (h *Home) Start(cmd *exec.Cmd) error { return cmd.Start() }

// Wait waits for a process.
func (h *Home) Wait(cmd *exec.Cmd) error { return cmd.Wait() }

// Kill kills nothing.
func (h *Home) Kill() (killed int) { return 0 }

// Close does nothing.
func (h *Home) Close() {}
