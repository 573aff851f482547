// Package private is how the hosts of one user keep out of each other's way in
// a directory that other users can reach as well: directories that nobody else
// can enter, and locks that say that a host lives. A lock, unlike a process id,
// means the same in containers that share a directory, and goes with its holder
// however that ends.
package private

import (
	"errors"
	"io/fs"
	"os"
)

// ErrLocked says that another process holds a lock.
var ErrLocked = errors.New("another process has locked it")

// Lock makes a file if need be and locks it for as long as it stays open. It
// does not wait: the error is ErrLocked if another process has the lock, and
// wraps fs.ErrNotExist if the file, or its directory, was removed meanwhile by
// one that had it. Symbolic links are not followed.
func Lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|noFollow, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		f.Close()
		return nil, err
	}
	mine, err := f.Stat()
	if err == nil {
		var there fs.FileInfo
		if there, err = os.Stat(path); err == nil && !os.SameFile(mine, there) {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
