//go:build linux

package main

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// An injector makes faults, one after the other, each whatever else is wrong at
// that time.
type injector struct {
	host    *hostProcess
	servers []*server
	clients *proxy       // in front of the clients whose connections are cut
	spared  map[int]bool // plugins of steady servers
	rec     *record
}

// run makes faults until ctx ends, and then undoes all that still last. The
// sequence of faults depends on the generator alone.
func (in *injector) run(ctx context.Context, random *rand.Rand, gap time.Duration) {
	var lasting sync.WaitGroup
	defer lasting.Wait()
	for {
		f := next(random, in.servers)
		wait := min(time.Duration(random.ExpFloat64()*float64(gap)), 5*gap)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		end, hit := f.kind.make(in, f)
		in.rec.fault(f.kind.name, f.server.name, f.String(), hit)
		if end == nil {
			continue
		}
		lasting.Go(func() {
			defer end()
			select {
			case <-ctx.Done():
			case <-time.After(f.lasts):
			}
		})
	}
}

// process returns the process of a server.
func (in *injector) process(s *server) (process, bool) {
	if s.upstream != nil {
		return lookAt(s.upstream.process())
	}
	for _, p := range below(processes(), in.host.cmd.Process.Pid) {
		if p.of() == s.name {
			return p, true
		}
	}
	return process{}, false
}

// plugin returns the plugin process that serves a server: the parent of its
// process over stdio, else the one that all servers of the kind share.
func (in *injector) plugin(s *server) (process, bool) {
	tree := below(processes(), in.host.cmd.Process.Pid)
	for _, p := range tree {
		if s.transport == "stdio" && p.of() == s.name {
			return find(tree, func(q process) bool { return q.pid == p.parent })
		}
	}
	if s.transport == "stdio" {
		return process{}, false
	}
	return find(tree, func(p process) bool { return p.plugin() == s.transport && !in.spared[p.pid] })
}

func find(some []process, is func(process) bool) (process, bool) {
	for _, p := range some {
		if is(p) {
			return p, true
		}
	}
	return process{}, false
}

// plugin returns the kind of transport that the process is a plugin for, "" if
// it is none.
func (p process) plugin() string {
	if kind, ok := strings.CutPrefix(p.program(), "hermes-transport-"); ok {
		return kind
	}
	if len(p.args) == 2 && p.args[1] == "plugin" {
		return "line"
	}
	return ""
}

// spare finds the plugins of steady servers, which run as long as the host
// does. All servers must be ready.
func (in *injector) spare() {
	in.spared = map[int]bool{}
	tree := below(processes(), in.host.cmd.Process.Pid)
	for _, s := range in.servers {
		if s.steady && s.proxy != nil {
			for _, p := range connectedTo(tree, s.proxy.port()) {
				in.spared[p.pid] = true
			}
		}
	}
}
