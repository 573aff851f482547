package orphan

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// The test process itself is the home. What a test starts beside it goes through
// it too.
var home *Home

func TestMain(m *testing.M) {
	var err error
	if home, err = Adopt(); err != nil {
		panic(err)
	}
	if os.Getenv(envHeir) != "" {
		os.Exit(home.Kill())
	}
	code := m.Run()
	home.Close()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// envHeir makes the test program one that kills what it has for orphans, and
// exits with their number.
const envHeir = "HERMES_TEST_HEIR"

// TestHeir: what a process had for children when it took its place by exec is
// not its own to kill.
func TestHeir(t *testing.T) {
	cmd := exec.Command("sh", "-c", `sleep 1000 & exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), envHeir+"=1")
	if err := home.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := home.Wait(cmd); err != nil {
		t.Errorf("killed somebody else's process: %v", err)
	}
	if n := home.Kill(); n != 1 { // it is this process's orphan now
		t.Errorf("%d processes outlived it, want 1", n)
	}
}

// daemon starts a process that leaves its session and its parent, and returns it
// as soon as it is an orphan.
func daemon(t *testing.T, script string) int {
	t.Helper()
	cmd := exec.Command("sh", "-c", "("+script+") </dev/null >/dev/null 2>&1 & echo $!")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := home.Start(cmd); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := home.Wait(cmd); err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// buried waits until there is nothing left of a process, not even a zombie.
func buried(t *testing.T, pid int) {
	t.Helper()
	for {
		// While it runs this waits; once it is a zombie it does not, until
		// that is taken away.
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.ECHILD):
			return
		case err != nil && !errors.Is(err, unix.EINTR):
			t.Fatal(err)
		}
	}
}

func TestKill(t *testing.T) {
	mine := exec.Command("sleep", "1000")
	if err := home.Start(mine); err != nil {
		t.Fatal(err)
	}
	if n := home.Kill(); n != 0 {
		t.Errorf("killed %d without an orphan", n)
	}
	pid := daemon(t, "trap '' TERM; sleep 1000; sleep 1001") // a shell with a sleep below it
	found := false
	for _, p := range Below(Table(), os.Getpid()) {
		found = found || p.PID == pid && p.Parent == os.Getpid() && p.Group != syscall.Getpgrp()
	}
	if !found {
		t.Error("the orphan is not below this process")
	}
	if n := home.Kill(); n < 1 || n > 2 {
		t.Errorf("killed %d, want the shell and its sleep", n)
	}
	buried(t, pid)
	if err := mine.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process of one's own is gone: %v", err)
	}
	if err := mine.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := home.Wait(mine); err == nil {
		t.Error("the exit status of a killed process is lost")
	}
}

// Orphans that end are buried at once, and none of this process's own loses its
// exit status to that.
func TestBurying(t *testing.T) {
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 25 {
				cmd := exec.Command("sh", "-c", fmt.Sprintf("(exit 0) & exit %d", i+1))
				if err := home.Start(cmd); err != nil {
					t.Error(err)
					return
				}
				err := home.Wait(cmd)
				if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != i+1 {
					t.Errorf("got %v, want exit status %d", err, i+1)
				}
			}
		})
	}
	all.Wait()
	for range 20 {
		buried(t, daemon(t, "exit 0"))
	}
}
