package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/internal/private"
)

// This file keeps the directory in which plugins make their sockets.
//
// The directory is hermes-<pid>, and a lock on a file in it says that its host
// lives. The lock, not the process id, is what counts: in containers that share
// a directory every host may have process id 1.

const (
	dirPrefix = "hermes-"
	lockName  = "lock"

	// maxSocketPath is what macOS allows, the least of all systems: 104
	// bytes with the zero at the end.
	maxSocketPath = 103
	// go-plugin appends /plugin-dir<n>/plugin<n>, each n a uint32.
	socketNameLength = len("/plugin-dir4294967295/plugin4294967295")
)

type runDir struct {
	path string
	lock *os.File
}

// newRunDir makes the directory in base and sweeps those of dead hosts.
func newRunDir(base string, log hclog.Logger) (*runDir, error) {
	if base == "" {
		base = os.Getenv("XDG_RUNTIME_DIR")
		if info, err := os.Stat(base); base == "" || err != nil || !info.IsDir() {
			base = os.TempDir()
		}
	}
	base, err := filepath.Abs(base)
	if err != nil {
		return nil, fmt.Errorf("finding the directory for plugin sockets: %w", err)
	}
	sweep(base, log)
	name := filepath.Join(base, dirPrefix+strconv.Itoa(os.Getpid()))
	for try := 0; try < 100; try++ {
		path := name
		if try > 0 {
			path += "-" + strconv.Itoa(try)
		}
		if n := len(path) + socketNameLength; n > maxSocketPath {
			return nil, fmt.Errorf("the directory for plugin sockets, %s, has too long a name: a socket in it would have a path of %d bytes, "+
				"and %d is the limit; set XDG_RUNTIME_DIR or TMPDIR to a directory with a shorter name", path, n, maxSocketPath)
		}
		err := os.Mkdir(path, 0o700)
		if errors.Is(err, fs.ErrExist) {
			continue // another host's, in another process namespace
		}
		if err != nil {
			return nil, fmt.Errorf("making the directory for plugin sockets (XDG_RUNTIME_DIR or TMPDIR decide where): %w", err)
		}
		lock, err := private.Lock(filepath.Join(path, lockName))
		switch {
		case errors.Is(err, private.ErrLocked) || errors.Is(err, fs.ErrNotExist):
			continue // swept by another host before the lock was on it
		case err != nil:
			os.RemoveAll(path)
			return nil, fmt.Errorf("locking the directory for plugin sockets: %w", err)
		}
		return &runDir{path: path, lock: lock}, nil
	}
	return nil, fmt.Errorf("making the directory for plugin sockets: all names like %s are taken", name)
}

// remove removes the directory, and then lets go of the lock.
func (d *runDir) remove() error {
	defer d.lock.Close()
	return os.RemoveAll(d.path)
}

// sweep removes the directories whose hosts are dead.
func sweep(base string, log hclog.Logger) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return // making our own will tell
	}
	for _, e := range entries {
		pid, _, _ := strings.Cut(strings.TrimPrefix(e.Name(), dirPrefix), "-")
		if _, err := strconv.Atoi(pid); err != nil || !strings.HasPrefix(e.Name(), dirPrefix) || !e.IsDir() {
			continue
		}
		path := filepath.Join(base, e.Name())
		if !private.Dir(path) {
			continue
		}
		lock, err := private.Lock(filepath.Join(path, lockName))
		if err != nil {
			continue // its host lives
		}
		if err := os.RemoveAll(path); err != nil {
			log.Warn("removing the socket directory of a dead host", "path", path, "error", err)
		} else {
			log.Debug("removed the socket directory of a dead host", "path", path)
		}
		lock.Close()
	}
}
