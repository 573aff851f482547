package orphan

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Home adopts what is orphaned below this process, instead of the system's
// init (PR_SET_CHILD_SUBREAPER, prctl(2)), and buries adopted processes that
// have ended.
//
// Every process that this one starts must be started and awaited through its
// Home, which has to tell its own from adopted ones: whoever waits for a process
// takes its exit status away from everybody else. Nil is a Home that adopts
// nothing. Methods may be called concurrently.
type Home struct {
	mixed   bool           // children of this process may be neither its own nor adopted from below
	signals chan os.Signal // SIGCHLD
	poked   chan struct{}
	closed  chan struct{}
	left    chan struct{} // closed when the goroutine has ended

	mu  sync.Mutex   // held while a process is started, and while orphans are told from others
	own map[int]bool // started and not yet awaited
}

// Adopt makes this process a home, for as long as it runs. There can be one
// only.
//
// A program that took the place of a shell by exec may have children already,
// and the first process of a container gets what others leave behind there.
// Such a process adopts and buries, and kills nothing: it can't tell what is
// not its own.
func Adopt() (*Home, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("becoming the parent of orphaned processes: %w", err)
	}
	h := &Home{
		signals: make(chan os.Signal, 1),
		poked:   make(chan struct{}, 1),
		closed:  make(chan struct{}),
		left:    make(chan struct{}),
		own:     map[int]bool{},
	}
	h.mixed = os.Getpid() == 1 || h.adopted() && slices.ContainsFunc(Table(), func(p Process) bool { return p.Parent == os.Getpid() })
	signal.Notify(h.signals, unix.SIGCHLD)
	go h.bury()
	return h, nil
}

// Close stops burying. This process goes on adopting.
func (h *Home) Close() {
	if h == nil {
		return
	}
	signal.Stop(h.signals)
	close(h.closed)
	<-h.left
}

// Start starts a process of this one's own.
func (h *Home) Start(cmd *exec.Cmd) error {
	if h == nil {
		return cmd.Start()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	h.own[cmd.Process.Pid] = true
	return nil
}

// Wait waits for a process that Start has started.
func (h *Home) Wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	if h == nil {
		return err
	}
	h.mu.Lock()
	delete(h.own, cmd.Process.Pid)
	h.mu.Unlock()
	// While its status was not taken it may have hidden others.
	select {
	case h.poked <- struct{}{}:
	default:
	}
	return err
}

// Kill kills all adopted processes and what is below them, and returns how many
// it has found. It finds none in a process that may have others' for children,
// see [Adopt].
func (h *Home) Kill() (killed int) {
	if h == nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mixed || !h.adopted() {
		return 0
	}
	done := map[Process]bool{}
	// Again, for what was forked between listing and killing. A process with
	// a SIGKILL pending does not fork.
	for fresh := true; fresh && killed < maxKilled; {
		fresh = false
		table := Table()
		for _, child := range table {
			if child.Parent != os.Getpid() || h.own[child.PID] {
				continue
			}
			for _, p := range append(Below(table, child.PID), child) {
				if p.Parent = 0; !done[p] {
					done[p], fresh = true, true
					killed++
					_ = unix.Kill(p.PID, unix.SIGKILL) // it is gone, or another user's
				}
			}
		}
	}
	return killed
}

// maxKilled bounds the fight against a process that forks without end.
const maxKilled = 10_000

// adopted reports whether there may be adopted processes. The threads' lists of
// children are a fraction of what the whole table costs to read. h.mu is held.
func (h *Home) adopted() bool {
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(lists) == 0 {
		return true // a kernel without CONFIG_PROC_CHILDREN
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread is gone
		}
		for pid := range strings.FieldsSeq(string(text)) {
			if n, err := strconv.Atoi(pid); err != nil || !h.own[n] {
				return true
			}
		}
	}
	return false
}

// bury takes the exit statuses of adopted processes, so that they don't stay as
// zombies.
func (h *Home) bury() {
	defer close(h.left)
	for {
		select {
		case <-h.signals:
		case <-h.poked:
		case <-h.closed:
			return
		}
		h.mu.Lock()
		for {
			pid := ended()
			if pid == 0 || h.own[pid] {
				break // Wait will take it, and look again
			}
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // nobody asks how it ended
		}
		h.mu.Unlock()
	}
}

// ended returns a child that has ended and leaves it as it is; 0 if there is
// none.
func ended() int {
	// siginfo_t has three integers before the part that depends on the signal,
	// which is aligned like a pointer and begins with the PID.
	const at = 2*4 + max(4, unsafe.Sizeof(uintptr(0)))
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if err != nil {
		return 0 // ECHILD
	}
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), at)))
}
