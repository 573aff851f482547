package launcher

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-host/hermes-host/host/session"
)

func TestLaunchErrors(t *testing.T) {
	noProgram := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(noProgram, []byte("not a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("not a program"), 0o644); err != nil {
		t.Fatal(err)
	}
	program := func(path string, args ...string) map[string]Command {
		return map[string]Command{"fake": {Path: path, Args: args}}
	}
	for _, c := range []struct {
		name      string
		commands  map[string]Command
		class     session.Class
		retryable bool
		words     []string
	}{
		{"no such kind", nil, session.ConfigFault, false, []string{`no plugin for transport "fake"`, "hermes-transport-fake"}},
		{"no such file", program("/nowhere/at/all"), session.ConfigFault, false, []string{"/nowhere/at/all"}},
		{"not executable", program(plain), session.ConfigFault, false, []string{plain}},
		{"not a program", program(noProgram), session.ConfigFault, false, []string{noProgram, "exec format error"}},
		{"another program", program("/bin/echo", "hello"), session.ConfigFault, false, []string{"/bin/echo is not a hermes transport plugin", `"hello"`}},
		{"a program that says nothing", program("/bin/true"), session.ConfigFault, false, []string{"is not a hermes transport plugin"}},
		{"crash", fakeCommand("exit 3"), session.Gone, true, []string{"exit status 3", "cannot open the pod bay doors"}},
		{"success", fakeCommand("exit 0"), session.ConfigFault, false, []string{"is not a hermes transport plugin"}},
		{"garbage", fakeCommand("garbage"), session.ConfigFault, false, []string{"is not a hermes transport plugin", "usage: something"}},
		{"garbage and exit", fakeCommand("garbage and exit"), session.ConfigFault, false, []string{"usage: something"}},
		{"hang", fakeCommand("hang"), session.Gone, true, []string{"within 3s", "thinking"}},
		{"panic", fakeCommand("panic"), session.Gone, true, []string{"panic: no good"}},
		{"killed after the handshake", fakeCommand("killed after the handshake"), session.Gone, true, []string{"ended while it started: signal: killed"}},
		{"version", fakeCommand("version 9"), session.ConfigFault, false, []string{"version 9"}},
		{"kind", fakeCommand("", envKind+"=other"), session.ConfigFault, false, []string{`serves transport "other", not "fake"`}},
		{"describe", fakeCommand("hang in describe"), session.Gone, true, []string{"does not answer"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.commands, func(q *timing) {
				if c.name == "hang" {
					q.handshake = 3 * time.Second
				}
				if c.name == "describe" {
					q.describe = 2 * time.Second
				}
			})
			began := time.Now()
			_, err := w.dial(t.Context(), script{}, &ear{})
			wantEnd(t, err, c.class, c.retryable, c.words...)
			if d := time.Since(began); d > 6*time.Second {
				t.Errorf("it took %v", d)
			}
			if n := w.plugins(); n != 0 {
				t.Errorf("%d processes left", n)
			}
		})
	}
}

func TestExitIsSeenThoughAChildHoldsThePipes(t *testing.T) {
	w := newWorld(t, fakeCommand(""))
	s := w.connect(script{Child: true})
	_, child := w.pids(s)
	pulse := feel(t, child)
	began := time.Now()
	if _, err := s.Call(t.Context(), session.Request{Method: "exit"}); err == nil {
		t.Error("the call was answered")
	}
	wantEnd(t, ended(t, s, time.Second), session.Gone, true, "exit status 3")
	t.Logf("the end was known after %v", time.Since(began))
	pulse.deadWithin(time.Second)
	w.closeWithin(s, 5*time.Second)
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("it took %v until nothing was left", d)
	}
	again := w.connect(script{}) // a dead process is not used again
	w.closeWithin(again, 5*time.Second)
}

func TestKilledPlugin(t *testing.T) {
	w := newWorld(t, fakeCommand(""))
	s := w.connect(script{Child: true})
	plugin, child := w.pids(s)
	pulse := feel(t, child)
	began := time.Now()
	if err := syscall.Kill(plugin, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wantEnd(t, ended(t, s, time.Second), session.Gone, true, "signal: killed")
	t.Logf("the end was known after %v", time.Since(began))
	pulse.deadWithin(time.Second)
	w.closeWithin(s, 5*time.Second)
}

func TestStoppedPluginIsFoundOut(t *testing.T) {
	w := newWorld(t, fakeCommand(""), func(q *timing) { q.healthEvery, q.healthWait = 300*time.Millisecond, 200*time.Millisecond })
	s := w.connect(script{Child: true})
	_, child := w.pids(s)
	pulse := feel(t, child)
	_, err := s.Call(t.Context(), session.Request{Method: "freeze"})
	if err == nil {
		t.Error("the call was answered")
	}
	wantEnd(t, ended(t, s, 5*time.Second), session.Gone, true, "did not answer for 400ms and was killed")
	pulse.deadWithin(time.Second)
	w.closeWithin(s, 5*time.Second)
}

func TestStopIsBounded(t *testing.T) {
	for _, c := range []struct {
		crime  string
		freeze bool
		within time.Duration
	}{
		{"", false, 2 * time.Second},
		{"", true, 4 * time.Second},
		{"hang in stop", false, 4 * time.Second},
		{"hang in close", false, 4 * time.Second},
		{"no lifeline", false, 2 * time.Second},
	} {
		t.Run(fmt.Sprintf("%s freeze=%v", c.crime, c.freeze), func(t *testing.T) {
			w := newWorld(t, fakeCommand(c.crime))
			s := w.connect(script{Child: true})
			plugin, child := w.pids(s)
			pulses := []pulse{feel(t, plugin), feel(t, child)}
			if c.freeze {
				if err := syscall.Kill(plugin, syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			began := time.Now()
			w.closeWithin(s, 3*time.Second)
			if d := time.Since(began); d > c.within {
				t.Errorf("Close took %v", d)
			} else {
				t.Logf("Close took %v", d)
			}
			for _, p := range pulses {
				p.deadWithin(time.Second) // the server was killed, and is not our child to wait for
			}
		})
	}
}

// TestHungAndSlowAtTheEnd: a plugin that is stopped, before or in the middle,
// costs one health check, however much time its sessions are given; one that is
// busy closing them gets that time, although it is longer.
func TestHungAndSlowAtTheEnd(t *testing.T) {
	hung := func(q *timing) { q.hung, q.stop = 500*time.Millisecond, time.Minute }
	for _, c := range []struct{ before, shared bool }{{true, false}, {true, true}, {false, false}, {false, true}} {
		t.Run(fmt.Sprintf("stopped, before=%v, shared=%v", c.before, c.shared), func(t *testing.T) {
			w := newWorld(t, fakeCommand(map[bool]string{false: "freeze in close"}[c.before]), hung)
			config, _ := json.Marshal(script{Child: true})
			isolate := !c.shared
			s, err := w.Transport(Spec{Server: "x", Kind: "fake", Config: config, Isolate: &isolate}).Connect(t.Context(), &ear{})
			if err != nil {
				t.Fatal(err)
			}
			plugin, child := w.pids(s)
			pulses := []pulse{feel(t, plugin), feel(t, child)}
			if c.before {
				if err := syscall.Kill(plugin, syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			began := time.Now()
			w.closeWithin(s, time.Minute)
			w.Close(context.Background())
			if d := time.Since(began); d > 3*time.Second {
				t.Errorf("it took %v", d)
			}
			for _, p := range pulses {
				p.deadWithin(time.Second)
			}
		})
	}
	t.Run("slow", func(t *testing.T) {
		w := newWorld(t, fakeCommand("hang in close"), hung)
		s := w.connect(script{})
		began := time.Now()
		w.closeWithin(s, 3*time.Second)
		if d := time.Since(began); d < 2*time.Second {
			t.Errorf("a plugin that answers was given %v of 3s", d)
		}
	})
}

func TestCloseStopsAllInParallelAndTheSecondAtOnce(t *testing.T) {
	w := newWorld(t, fakeCommand("hang in stop"), func(q *timing) { q.stop, q.term = time.Minute, time.Minute })
	var pulses []pulse
	for range 4 {
		s := w.connect(script{Child: true})
		plugin, child := w.pids(s)
		pulses = append(pulses, feel(t, plugin), feel(t, child))
	}
	first := make(chan struct{})
	go func() {
		defer close(first)
		w.Close(context.Background())
	}()
	<-w.ctx.Done() // Close has begun
	if _, err := w.dial(t.Context(), script{}, &ear{}); err == nil {
		t.Error("Connect succeeded after Close")
	}
	began := time.Now()
	w.Close(context.Background())
	<-first
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("the second Close took %v", d)
	}
	for _, p := range pulses {
		p.deadWithin(time.Second) // the server was killed, and is not our child to wait for
	}
}

func TestStderrOfAnyKind(t *testing.T) {
	w := newWorld(t, fakeCommand("stderr"))
	s := w.connect(script{})
	w.closeWithin(s, 5*time.Second)
	log := w.log.String()
	for _, want := range []string{`{"@level":3}`, "xxxx… (1032196 bytes more)", "plugin is up: lifeline=stdin"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not have %q", want)
		}
	}
}

func TestChecksum(t *testing.T) {
	commands := fakeCommand("")
	data, err := os.ReadFile(commands["fake"].Path)
	if err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	c := commands["fake"]
	c.SHA256 = sum
	commands["fake"] = c
	w := newWorld(t, commands)
	for range 2 {
		s := w.connect(script{})
		w.closeWithin(s, 5*time.Second)
	}
	c.SHA256 = strings.Repeat("ab", 32)
	w.SetCommands(map[string]Command{"fake": c})
	_, err = w.dial(t.Context(), script{}, &ear{})
	wantEnd(t, err, session.ConfigFault, false, c.Path, sum, c.SHA256)
	c.SHA256 = "abc"
	w.SetCommands(map[string]Command{"fake": c})
	_, err = w.dial(t.Context(), script{}, &ear{})
	wantEnd(t, err, session.ConfigFault, false, "64 hexadecimal digits")
}

func TestEnvironmentIsMinimal(t *testing.T) {
	t.Setenv("SECRET_OF_THE_HOST", "x")
	w := newWorld(t, fakeCommand("", "OWN=1", pluginEnvCookie+"=overridden"))
	s := w.connect(script{})
	r, err := s.Call(t.Context(), session.Request{Method: "environ"})
	if err != nil {
		t.Fatal(err)
	}
	var env []string
	if err := json.Unmarshal(r.Result, &env); err != nil {
		t.Fatal(err)
	}
	all := "\n" + strings.Join(env, "\n") + "\n"
	if strings.Contains(all, "SECRET_OF_THE_HOST") {
		t.Error("the host's variable is there")
	}
	for _, want := range []string{"\nOWN=1\n", "\nPATH=" + os.Getenv("PATH") + "\n", "\nHERMES_LOG_LEVEL=debug\n"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q", want)
		}
	}
	w.closeWithin(s, 5*time.Second)
}

const pluginEnvCookie = "HERMES_PLUGIN"

// TestKilledHost kills a host with SIGKILL and wants nothing to be left.
func TestKilledHost(t *testing.T) {
	for _, c := range []struct {
		name, crime string
		script      script
		freeze      bool
		within      time.Duration
	}{
		{"orderly plugin", "", script{}, false, 2 * time.Second},
		{"server that ignores the end of input", "", script{Child: true}, false, 2 * time.Second},
		{"plugin that ignores its lifeline", "no lifeline", script{Child: true}, false, 2 * time.Second},
		{"server in a session of its own", "no lifeline", script{Child: true, Apart: true}, false, 2 * time.Second},
		{"frozen plugin", "", script{Child: true}, true, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "hh")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			config, err := json.Marshal(c.script)
			if err != nil {
				t.Fatal(err)
			}
			host := exec.Command(os.Args[0])
			host.Env = append(os.Environ(), envRole+"=host", envCrime+"="+c.crime, "HERMES_TEST_RUNDIR="+dir, "HERMES_TEST_SCRIPT="+string(config))
			if c.freeze {
				host.Env = append(host.Env, "HERMES_TEST_FREEZE=1")
			}
			host.Stderr = os.Stderr
			out, err := host.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := host.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadBytes('\n')
			if err != nil {
				t.Fatal(err)
			}
			var pids []int
			if err := json.Unmarshal(line, &pids); err != nil {
				t.Fatal(err)
			}
			var pulses []pulse
			for _, pid := range append(pids, guardOf(t, host.Process.Pid)) {
				if pid != 0 {
					pulses = append(pulses, feel(t, pid))
				}
			}
			if c.freeze {
				awaitStopped(t, pids[0])
			}
			began := time.Now()
			if err := host.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = host.Wait()
			for _, p := range pulses {
				p.deadWithin(c.within - time.Since(began))
			}
			t.Logf("nothing left after %v", time.Since(began))

			// The next host sweeps the directory.
			left, _ := os.ReadDir(dir)
			if len(left) != 1 {
				t.Errorf("the dead host left %v", left)
			}
			l, err := New(Settings{RunDir: dir})
			if err != nil {
				t.Fatal(err)
			}
			if now, _ := os.ReadDir(dir); len(now) != 1 || now[0].Name() == left[0].Name() {
				t.Errorf("after the sweep there is %v", now)
			}
			l.Close(context.Background())
		})
	}
}

// guardOf finds the guard among a host's children.
func guardOf(t *testing.T, host int) int {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", host))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for _, pid := range strings.Fields(string(data)) {
			if cmdline, _ := os.ReadFile("/proc/" + pid + "/cmdline"); strings.HasPrefix(string(cmdline), "hermes-guard") {
				var n int
				fmt.Sscan(pid, &n)
				return n
			}
		}
	}
	t.Error("the host has no guard")
	return 0
}

// awaitStopped waits until a process is stopped. There is no event for those
// that are not children.
func awaitStopped(t *testing.T, pid int) {
	t.Helper()
	for range 1000 {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), ") T ") {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	t.Fatalf("process %d does not stop", pid)
}

func TestOneProcessOrMany(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name    string
		multi   string
		isolate *bool
		want    int
	}{
		{"multi", "1", nil, 1},
		{"single", "", nil, 20},
		{"multi, isolated", "1", &yes, 20},
		{"single, not isolated", "", &no, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, fakeCommand("", envMulti+"="+c.multi), func(q *timing) { q.handshake, q.idle = 30*time.Second, 50*time.Millisecond })
			sessions := make([]session.Session, 20)
			var connecting sync.WaitGroup
			for i := range sessions {
				connecting.Go(func() {
					s, err := w.Transport(Spec{Kind: "fake", Config: []byte(`{}`), Isolate: c.isolate}).Connect(t.Context(), &ear{})
					if err != nil {
						t.Error(err)
						return
					}
					sessions[i] = s
				})
			}
			connecting.Wait()
			if t.Failed() {
				return
			}
			pids := make(map[int]bool)
			for _, s := range sessions {
				pid, _ := w.pids(s)
				pids[pid] = true
			}
			if len(pids) != c.want || w.plugins() != c.want {
				t.Errorf("%d processes have sessions and %d run, want %d", len(pids), w.plugins(), c.want)
			}
			var last pulse
			for pid := range pids {
				last = feel(t, pid)
			}
			var closing sync.WaitGroup
			for _, s := range sessions {
				closing.Go(func() { w.closeWithin(s, 10*time.Second) })
			}
			closing.Wait()
			last.deadWithin(5 * time.Second) // a shared one a moment after its last session
		})
	}
}

func TestOneServersEndLeavesTheOthers(t *testing.T) {
	w := newWorld(t, fakeCommand("", envMulti+"=1"))
	a, b := w.connect(script{}), w.connect(script{})
	if _, err := a.Call(t.Context(), session.Request{Method: "lose"}); err == nil {
		t.Error("the lost session answered")
	}
	w.closeWithin(a, time.Second)
	if _, err := b.Call(t.Context(), session.Request{Method: "echo", Params: []byte(`{}`)}); err != nil {
		t.Errorf("the other session: %v", err)
	}
	if _, err := b.Call(t.Context(), session.Request{Method: "panic"}); err == nil {
		t.Error("the dead plugin answered")
	}
	c := w.connect(script{})
	w.closeWithin(b, 5*time.Second)
	w.closeWithin(c, 5*time.Second)
}

func TestDescribeAndValidate(t *testing.T) {
	w := newWorld(t, fakeCommand(""), func(q *timing) { q.idle = time.Minute })
	about, err := w.Describe(t.Context(), "fake")
	if err != nil || about.Version != "1.2.3" || len(about.Schema) != 1 {
		t.Fatalf("Describe: %+v, %v", about, err)
	}
	for config, want := range map[string]int{`{"target":"bad"}`: 1, `{}`: 0} {
		found, err := w.Validate(t.Context(), "fake", []byte(config))
		if err != nil || len(found) != want {
			t.Errorf("Validate(%s): %v, %v", config, found, err)
		}
	}
	s := w.connect(script{}) // takes the process that was asked
	if n := w.plugins(); n != 1 {
		t.Errorf("%d processes run", n)
	}
	if kinds := w.Kinds(); len(kinds) != 1 || kinds[0].Kind != "fake" || !kinds[0].Named {
		t.Errorf("Kinds: %+v", kinds)
	}
	w.closeWithin(s, 5*time.Second)

	// Another program is asked again.
	w.SetCommands(fakeCommand("", envMulti+"=1"))
	if about, err := w.Describe(t.Context(), "fake"); err != nil || !about.MultiSession {
		t.Errorf("Describe after the change: %+v, %v", about, err)
	}
	_, err = w.Describe(t.Context(), "../evil")
	wantEnd(t, err, session.ConfigFault, false, "no kind of transport")
}

func TestCancelledLaunch(t *testing.T) {
	w := newWorld(t, fakeCommand("hang"))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := w.dial(ctx, script{}, &ear{})
	wantEnd(t, err, session.Gone, true)
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("it took %v", d)
	}
}
