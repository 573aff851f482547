package main

import (
	"os"
	"runtime"
)

// shareProcessors leaves half of the processors to the plugins and servers, as
// long as the environment variable GOMAXPROCS says nothing else. A relay waits
// more than it computes: Go wakes a thread for each processor that it may use,
// mostly in vain, and takes the processor from the process that it waits for.
func shareProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)/2))
	}
}
