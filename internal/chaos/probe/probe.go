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
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"syscall"
)

// Message is the @message of the line.
const Message = "chaos probe"

// EnvStacks names the variable with the path of a file that gets the stacks of
// all goroutines at each probe, after those of the earlier ones.
const EnvStacks = "HERMES_CHAOS_STACKS"

// A Level is what the line says.
type Level struct {
	Message    string `json:"@message"`
	Goroutines int    `json:"goroutines"`
	Heap       uint64 `json:"heap"` // live bytes after a collection
}

func init() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		for range asked {
			tell()
		}
	}()
}

func tell() {
	runtime.GC()         // what sync.Pools keep goes with the second collection
	debug.FreeOSMemory() // which this is
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	line, err := json.Marshal(Level{Message, runtime.NumGoroutine(), m.HeapAlloc})
	if err != nil { // strings and numbers always encode
		panic(err)
	}
	if f, err := os.OpenFile(os.Getenv(EnvStacks), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
		fmt.Fprintln(f, "== probe")
		_ = pprof.Lookup("goroutine").WriteTo(f, 1) // for people; the count is in the line
		f.Close()
	}
	fmt.Fprintf(os.Stderr, "%s\n", line)
}
