//go:build !linux

// Chaos runs the real host among failures and proves that it survives them.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "chaos: this needs Linux: it looks at processes through /proc")
	os.Exit(1)
}
