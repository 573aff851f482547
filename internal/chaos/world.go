//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A world is everything that a run has started.
type world struct {
	options
	self string // this program, which servers and the line plugin run
	dir  string // of this run: sockets, logs, the file of writes
	bin  string // where the programs are built

	servers []*server
	host    *hostProcess
	doors   *proxy // in front of the clients whose connections are cut
	rec     *record
	ledger  *ledger
	before  level // before any fault
	worn    level // after the first faults
	storms  uint64
	ready   time.Duration // the longest time from the last fault until all servers were ready
}

// newWorld builds the programs and makes the directory.
func newWorld(ctx context.Context, o options) (*world, error) {
	w := &world{options: o, bin: o.bin, rec: newRecord(), ledger: newLedger(), servers: servers()}
	var err error
	if w.dir, err = os.MkdirTemp("", "chaos-"); err != nil { // short: paths of sockets have a limit
		return nil, err
	}
	if w.bin == "" {
		w.bin = filepath.Join(w.dir, "built")
	}
	if w.bin, err = filepath.Abs(w.bin); err != nil {
		return w, err
	}
	fmt.Println("building, unless it is there already:", w.bin)
	if err := build(ctx, w.bin); err != nil {
		return w, err
	}
	// Everything runs from a directory of this run's own, by which its processes
	// are known, and whatever becomes of the files that were built.
	for name := range programs {
		if err := copyProgram(filepath.Join(w.bin, name), w.program(name)); err != nil {
			return w, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return w, err
	}
	w.self = w.program("chaos")
	if err := copyProgram(self, w.self); err != nil {
		return w, err
	}
	if err := os.Mkdir(w.sockets(), 0o700); err != nil {
		return w, err
	}
	return w, os.WriteFile(w.writes(), nil, 0o600)
}

func copyProgram(from, to string) error {
	program, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.WriteFile(to, program, 0o700)
}

func (w *world) program(name string) string { return filepath.Join(w.dir, "bin", name) }

// sockets is the host's directory for them.
func (w *world) sockets() string { return filepath.Join(w.dir, "run") }

func (w *world) writes() string { return filepath.Join(w.dir, "writes") }

// start starts remote servers and the host, and waits until all is ready.
func (w *world) start(ctx context.Context) error {
	var err error
	for _, s := range w.servers {
		if s.transport == "stdio" {
			continue
		}
		if s.proxy, err = newProxy("unix", s.socket(w.dir)); err != nil {
			return err
		}
		s.upstream = newUpstream(w.self, s.program(w.dir))
	}
	if w.host, err = startHost(w.program("hermes-host"), w.dir, w.sockets(), configuration(w.servers, w.self, w.dir)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readyBound, errors.New("the servers are not ready"))
	defer cancel()
	if err := w.host.ready(ctx, w.servers); err != nil {
		return fmt.Errorf("%w\n%s", err, w.host.last())
	}
	w.doors, err = newProxy("tcp", w.host.address())
	return err
}

// load returns clients that have not connected yet: for each era two with the
// aggregate, one of them with connections that are cut, and two with a session
// for each server, likewise.
func (w *world) load() *load {
	l := &load{
		servers: w.servers, ledger: w.ledger, rec: w.rec, pace: w.pace,
		steady: slices.DeleteFunc(slices.Clone(w.servers), func(s *server) bool { return !s.steady }),
	}
	base := "http://" + w.host.address() + "/mcp"
	for _, era := range []struct{ name, protocol string }{{"legacy", legacy}, {"stateless", stateless}} {
		for _, alone := range []bool{false, true} {
			name := era.name + "-all"
			if alone {
				name = era.name + "-each"
			}
			l.clients = append(l.clients,
				newClient(name, base, era.protocol, alone, nil, w.rec),
				newClient(name+"-cut", "http://"+w.doors.address()+"/mcp", era.protocol, alone, w.doors, w.rec))
		}
	}
	return l
}

// close ends all that the world has started and waits for it, but for the host,
// which must have been stopped.
func (w *world) close() {
	if w.host != nil {
		select {
		case <-w.host.ended:
		default:
			_ = w.host.cmd.Process.Kill()
			<-w.host.ended
		}
	}
	if w.doors != nil {
		w.doors.close()
	}
	for _, s := range w.servers {
		if s.upstream != nil {
			s.upstream.close()
		}
		if s.proxy != nil {
			s.proxy.close()
		}
	}
}

// stopHost stops the host in order and looks for what it has left.
func (w *world) stopHost() {
	start := time.Now()
	code, err := w.host.stop()
	switch {
	case err != nil:
		w.rec.violation("%v", err)
	case code != 0:
		w.rec.violation("the host's exit code is %d", code)
	}
	fmt.Printf("%10s  the host has stopped, in %v\n", w.rec.since(), time.Since(start).Round(time.Millisecond))
	if lost := w.orphans(); len(lost) > 0 {
		w.rec.violation("left behind by the host: %s", describe(lost))
	}
	if err := filepath.WalkDir(w.sockets(), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type() == fs.ModeSocket {
			w.rec.violation("left behind by the host: %s", path)
		}
		return err
	}); err != nil {
		w.rec.violation("looking at the host's directory: %v", err)
	}
}

// orphans returns processes of this run that belong neither to the host nor to
// us.
func (w *world) orphans() []process {
	all := processes()
	ours := map[int]bool{w.host.cmd.Process.Pid: true}
	for _, root := range []int{w.host.cmd.Process.Pid, os.Getpid()} {
		for _, p := range below(all, root) {
			ours[p.pid] = true
		}
	}
	return slices.DeleteFunc(all, func(p process) bool {
		return ours[p.pid] || filepath.Dir(p.args[0]) != filepath.Dir(w.self)
	})
}

func describe(some []process) string {
	var all []string
	for _, p := range some {
		all = append(all, fmt.Sprintf("%s (%d)", p.what(), p.pid))
	}
	return strings.Join(all, ", ")
}
