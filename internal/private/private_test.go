package private

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestLock(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	f, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(path); err != ErrLocked {
		t.Errorf("a lock that is held: %v", err)
	}
	f.Close()
	again, err := Lock(path)
	if err != nil {
		t.Fatalf("a lock that was let go: %v", err)
	}
	again.Close()
	if _, err := Lock(filepath.Join(dir, "gone", "lock")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a directory that is not there: %v", err)
	}
}

func TestLockFollowsNoLink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no O_NOFOLLOW")
	}
	dir := t.TempDir()
	link := filepath.Join(dir, "lock")
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), link); err != nil {
		t.Fatal(err)
	}
	if f, err := Lock(link); err == nil {
		f.Close()
		t.Error("a link was followed")
	}
}

func TestDir(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no modes")
	}
	base := t.TempDir()
	dir, file, link := filepath.Join(base, "dir"), filepath.Join(base, "file"), filepath.Join(base, "link")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(file, nil, 0o700), os.Symlink(dir, link)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{dir: true, file: false, link: false, filepath.Join(base, "none"): false} {
		if got := Dir(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	if err := os.Chmod(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if Dir(dir) {
		t.Error("a directory that others can enter passes for private")
	}
}
