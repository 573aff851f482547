//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"
)

// A fault is one thing that goes wrong. The generator decides everything about
// it; whether its target is there at that moment is the world's part.
type fault struct {
	kind   *kind
	server *server
	lasts  time.Duration // of those that end by themselves
}

// A kind of fault.
type kind struct {
	name    string
	weight  int           // how often, against the others
	longest time.Duration // 0: it is over at once
	fits    func(*server) bool
	// make does it, and returns what ends it (nil: nothing) and whether the
	// target was there.
	make func(*injector, fault) (end func(), hit bool)
}

func local(s *server) bool  { return !s.steady && s.transport == "stdio" }
func remote(s *server) bool { return !s.steady && s.transport != "stdio" }
func every(s *server) bool  { return !s.steady }

var kinds = []*kind{
	{"kill server", 10, 0, local, signalServer(unix.SIGKILL)},
	{"terminate server", 3, 0, local, signalServer(unix.SIGTERM)},
	{"stop server", 5, 8 * time.Second, local, signalServer(unix.SIGSTOP)},
	{"kill remote server", 8, 3 * time.Second, remote, killRemote(unix.SIGKILL)},
	{"terminate remote", 2, time.Second, remote, killRemote(unix.SIGTERM)},
	{"stop remote server", 5, 8 * time.Second, remote, signalServer(unix.SIGSTOP)},
	{"kill plugin", 8, 0, every, signalPlugin(unix.SIGKILL)},
	{"terminate plugin", 2, 0, every, signalPlugin(unix.SIGTERM)},
	{"stop plugin", 4, 25 * time.Second, every, signalPlugin(unix.SIGSTOP)},
	{"freeze server", 6, 0, every, signalServer(unix.SIGUSR1)},
	{"flood", 5, 0, every, signalServer(unix.SIGUSR2)},
	{"cut connections", 8, 0, remote, func(_ *injector, f fault) (func(), bool) {
		f.server.proxy.cut()
		return nil, true
	}},
	{"stall connections", 5, 8 * time.Second, remote, func(_ *injector, f fault) (func(), bool) {
		f.server.proxy.stall(true)
		return func() { f.server.proxy.stall(false) }, true
	}},
	{"refuse connections", 5, 6 * time.Second, remote, func(_ *injector, f fault) (func(), bool) {
		f.server.proxy.refuse(true)
		f.server.proxy.cut()
		return func() { f.server.proxy.refuse(false) }, true
	}},
	{"cut clients", 4, 0, every, func(in *injector, _ fault) (func(), bool) {
		in.clients.cut()
		return nil, true
	}},
}

// next draws a fault.
func next(random *rand.Rand, all []*server) fault {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	n := random.IntN(total)
	var f fault
	for _, k := range kinds {
		if n -= k.weight; n < 0 {
			f.kind = k
			break
		}
	}
	var fit []*server
	for _, s := range all {
		if f.kind.fits(s) {
			fit = append(fit, s)
		}
	}
	f.server = fit[random.IntN(len(fit))]
	if f.kind.longest > 0 {
		f.lasts = 100*time.Millisecond + time.Duration(random.Int64N(int64(f.kind.longest)))
	}
	return f
}

// signalServer signals the server's own process; a stopped one goes on later.
func signalServer(sig unix.Signal) func(*injector, fault) (func(), bool) {
	return func(in *injector, f fault) (func(), bool) {
		p, ok := in.process(f.server)
		return signalTo(p, ok, sig)
	}
}

// signalPlugin signals the plugin that serves the server.
func signalPlugin(sig unix.Signal) func(*injector, fault) (func(), bool) {
	return func(in *injector, f fault) (func(), bool) {
		p, ok := in.plugin(f.server)
		return signalTo(p, ok, sig)
	}
}

func signalTo(p process, ok bool, sig unix.Signal) (func(), bool) {
	if !ok {
		return nil, false
	}
	h, ok := p.hold()
	if !ok {
		return nil, false
	}
	hit := h.signal(sig)
	if sig != unix.SIGSTOP {
		h.release()
		return nil, hit
	}
	return func() {
		h.signal(unix.SIGCONT) // it may have been killed meanwhile
		h.release()
	}, hit
}

// killRemote ends a remote server, which stays away for the fault's duration.
func killRemote(sig unix.Signal) func(*injector, fault) (func(), bool) {
	return func(_ *injector, f fault) (func(), bool) { return nil, f.server.upstream.kill(sig, f.lasts) }
}

func (f fault) String() string {
	if f.lasts == 0 {
		return ""
	}
	return fmt.Sprintf("for %v", f.lasts.Round(time.Millisecond))
}
