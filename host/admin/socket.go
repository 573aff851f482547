package admin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hermes-host/hermes-host/internal/private"
)

// This file keeps the directory of the sockets.
//
// A socket is named for the configuration of its host, so that whoever has the
// configuration finds the host. A lock beside it says that the host lives: a
// socket whose lock is free belonged to a host that died and may be removed,
// by whoever holds the lock then.

const (
	socketSuffix = ".sock"
	lockSuffix   = ".lock"
	dirName      = "hermes-host"
	// maxPath is what macOS allows, the least of all systems: 104 bytes with
	// the zero at the end.
	maxPath = 103
)

// Dir returns the directory for sockets below base, or if that is empty below
// $XDG_RUNTIME_DIR, or where there is none a directory of the user's own below
// the system's for temporary files.
func Dir(base string) string {
	if base == "" {
		base = os.Getenv("XDG_RUNTIME_DIR")
	}
	if info, err := os.Stat(base); base != "" && err == nil && info.IsDir() {
		return filepath.Join(base, dirName)
	}
	return tempDir()
}

func tempDir() string {
	name := dirName
	if uid := os.Getuid(); uid >= 0 { // on Windows the directory is the user's
		name += "-" + strconv.Itoa(uid)
	}
	return filepath.Join(os.TempDir(), name)
}

// nameOf returns the first part of the name of a configuration's sockets.
// Links in the way to the file are followed, the file itself is not: it may be
// replaced by another.
func nameOf(config string) (string, error) {
	abs, err := filepath.Abs(config)
	if err != nil {
		return "", err
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		abs = filepath.Join(dir, filepath.Base(abs))
	}
	sum := sha256.Sum256([]byte(abs))
	return hex.EncodeToString(sum[:6]), nil
}

// A Socket is the listener of one host. Close it to remove it.
type Socket struct {
	net.Listener
	Path string
	// Shared is true if the socket has the name by which others look for a
	// host of the configuration to join.
	Shared bool
	lock   *os.File
}

// Listen makes the socket of a host with a configuration, in dir. If shared is
// true and no other host has it, it gets the name that [Find] looks for first.
// Sockets of dead hosts are removed.
func Listen(dir, config string, shared bool) (*Socket, error) {
	name, err := nameOf(config)
	if err != nil {
		return nil, fmt.Errorf("making the admin socket: %w", err)
	}
	if err := ownDir(dir); err != nil {
		return nil, fmt.Errorf("making the directory for the admin socket (XDG_RUNTIME_DIR decides where): %w", err)
	}
	sweep(dir)
	own := name + "-" + strconv.Itoa(os.Getpid())
	if shared {
		s, err := listen(dir, name)
		if err == nil {
			s.Shared = true
			return s, nil
		}
		if !errors.Is(err, private.ErrLocked) {
			return nil, err
		}
	}
	// A process may run several hosts, and in containers that share the
	// directory all may have one process id.
	for try := 0; try < 100; try++ {
		unique := own
		if try > 0 {
			unique += "-" + strconv.Itoa(try)
		}
		s, err := listen(dir, unique)
		if !errors.Is(err, private.ErrLocked) {
			return s, err
		}
	}
	return nil, fmt.Errorf("making the admin socket: all names like %s are taken", filepath.Join(dir, own))
}

// listen makes a socket of one name. The error wraps private.ErrLocked if another host
// has it.
func listen(dir, name string) (*Socket, error) {
	path := filepath.Join(dir, name+socketSuffix)
	if len(path) > maxPath {
		return nil, fmt.Errorf("making the admin socket: its path, %s, has %d bytes, and %d is the limit; set XDG_RUNTIME_DIR to a directory with a shorter name", path, len(path), maxPath)
	}
	lock, err := takeLock(filepath.Join(dir, name+lockSuffix))
	if err != nil {
		return nil, fmt.Errorf("locking the admin socket: %w", err)
	}
	_ = os.Remove(path) // of a host that died
	l, err := net.Listen("unix", path)
	if err == nil {
		// Nobody else could come in before: the directory is ours alone.
		if err = os.Chmod(path, 0o600); err != nil {
			l.Close()
		}
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("making the admin socket: %w", err)
	}
	return &Socket{Listener: l, Path: path, lock: lock}, nil
}

// Close stops listening and removes the socket.
func (s *Socket) Close() error {
	err := s.Listener.Close()
	_ = os.Remove(s.Path) // the listener has done it, where it could
	unlock(s.lock)
	return err
}

// ownDir makes a directory that only this user can enter, or checks that one
// is so.
func ownDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if !private.Dir(dir) {
		return fmt.Errorf("%s is there already, and is not a directory that belongs to this user alone (mode 0700)", dir)
	}
	return nil
}

// sweep removes the sockets of dead hosts.
func sweep(dir string) {
	locks, _ := filepath.Glob(filepath.Join(dir, "*"+lockSuffix))
	for _, path := range locks {
		lock, err := takeLock(path)
		if err != nil {
			continue // its host lives
		}
		_ = os.Remove(strings.TrimSuffix(path, lockSuffix) + socketSuffix)
		unlock(lock)
	}
}

// unlock removes a lock's file and lets go of it: in this order, since a file
// that is removed later may be another's. Windows removes no open file, but
// neither one that another has opened.
func unlock(lock *os.File) {
	err := os.Remove(lock.Name())
	lock.Close()
	if err != nil {
		_ = os.Remove(lock.Name())
	}
}

// takeLock locks a file for as long as it stays open. The error is
// private.ErrLocked if another process holds the lock, or holds one no longer
// but has removed the file meanwhile too often for it to be chance.
func takeLock(path string) (*os.File, error) {
	for range 100 {
		f, err := private.Lock(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, private.ErrLocked
}
