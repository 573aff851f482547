//go:build unix

// Package probe is linked into the host that the chaos program builds, and into
// no other. On SIGUSR1 the host settles its memory and tells, as one line of
// its log, what only the process itself knows.
package probe

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"syscall"
)

// Message is the @message of the line.
const Message = "chaos probe"

// EnvDir names the variable with the directory that gets the stacks of all
// goroutines, and a profile of the heap, at each probe: stacks.1, heap.1, ….
// Without it nothing answers: the chaos program has this package in it, too.
const EnvDir = "HERMES_CHAOS_PROBES"

// A Level is what the line says. Sizes are in bytes, after a collection.
type Level struct {
	Message    string `json:"@message"`
	Goroutines int    `json:"goroutines"`
	Heap       uint64 `json:"heap"`  // of objects that live
	Pages      uint64 `json:"pages"` // of pages that hold at least one of them
	Idle       uint64 `json:"idle"`  // of empty pages that were not given back
}

func init() {
	if os.Getenv(EnvDir) == "" {
		return
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		for range asked {
			tell()
		}
	}()
}

var probes int

func tell() {
	runtime.GC()         // what sync.Pools keep goes with the second collection
	debug.FreeOSMemory() // which this is
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	line, err := json.Marshal(Level{
		Message: Message, Goroutines: runtime.NumGoroutine(),
		Heap: m.HeapAlloc, Pages: m.HeapInuse, Idle: m.HeapIdle - m.HeapReleased,
	})
	if err != nil { // strings and numbers always encode
		panic(err)
	}
	probes++
	profile("goroutine", "stacks", 1)
	profile("heap", "heap", 0)
	fmt.Fprintf(os.Stderr, "%s\n", line)
}

// profile writes one of the runtime's profiles, for people: the counts are in
// the line.
func profile(of, name string, debug int) {
	path := filepath.Join(os.Getenv(EnvDir), fmt.Sprintf("%s.%d", name, probes))
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
		_ = pprof.Lookup(of).WriteTo(f, debug)
		f.Close()
	}
}
