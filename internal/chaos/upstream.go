//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// An upstream keeps the process of a remote server running: whenever it ends,
// it is started anew after a while. The host can't do that for remote servers.
type upstream struct {
	self string
	args []string
	gone chan struct{} // closed when keep has returned

	mu    sync.Mutex
	pid   int           // 0 while none runs
	pause time.Duration // before the next start
	stop  chan struct{} // closed to end it
}

// restart is how long a remote server is away if nothing else was said.
const restart = 300 * time.Millisecond

func newUpstream(self string, args []string) *upstream {
	u := &upstream{self: self, args: args, pause: restart, gone: make(chan struct{}), stop: make(chan struct{})}
	go u.keep()
	return u
}

// keep runs the process, until stop.
func (u *upstream) keep() {
	defer close(u.gone)
	for {
		cmd := exec.Command(u.self, u.args...)
		// Its own end comes with ours, whatever ours is.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			fmt.Fprintln(os.Stderr, "chaos: starting a server:", err)
		} else {
			u.set(cmd.Process.Pid)
			ended := make(chan struct{})
			go func() {
				_ = cmd.Wait() // mostly killed
				close(ended)
			}()
			select {
			case <-ended:
			case <-u.stop:
				_ = cmd.Process.Kill() // also if it is stopped
				<-ended
			}
			u.set(0)
		}
		u.mu.Lock()
		pause := u.pause
		u.pause = restart
		u.mu.Unlock()
		select {
		case <-time.After(pause):
		case <-u.stop:
			return
		}
	}
}

func (u *upstream) set(pid int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pid = pid
}

// kill sends a signal that ends the process, which then stays away so long. It
// reports whether there was one. The number is right: nobody else waits for the
// process, and under mu it is not waited for either.
func (u *upstream) kill(sig syscall.Signal, away time.Duration) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pid == 0 {
		return false
	}
	u.pause = away
	return syscall.Kill(u.pid, sig) == nil
}

// process returns the number of the running process, 0 if there is none.
func (u *upstream) process() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.pid
}

// close ends it.
func (u *upstream) close() {
	close(u.stop)
	<-u.gone
}
