//go:build !unix

package shared

import "os"

// leave ends the process at once.
func leave() { os.Exit(0) }
