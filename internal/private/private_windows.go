package private

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

const noFollow = 0

func lock(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}

// Dir reports whether a path is a directory. That others can't enter it is for
// the permissions of the directory that it is in, which is the user's.
func Dir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}
