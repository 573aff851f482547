package admin

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// TestSocketIsPrivate looks at the modes, and at what is left after the end.
func TestSocketIsPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no modes")
	}
	dir := filepath.Join(runtimeDir(t), dirName)
	s, err := Listen(dir, "a.hcl", true)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{dir: fs.ModeDir | 0o700, s.Path: fs.ModeSocket | 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want mode %v", path, info.Mode(), err, want)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}

	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(dir, "a.hcl", true); err == nil {
		t.Error("a directory that others can enter was used")
	}
}

// TestSocketsOfOneConfiguration gives the name that others look for to one host
// at a time, never to one that must not be joined, and to the next when it is
// free.
func TestSocketsOfOneConfiguration(t *testing.T) {
	dir := filepath.Join(runtimeDir(t), dirName)
	listen := func(shared bool) *Socket {
		t.Helper()
		s, err := Listen(dir, "a.hcl", shared)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	alone := listen(false)
	defer alone.Close()
	first := listen(true)
	second := listen(true)
	defer second.Close()
	if alone.Shared || !first.Shared || second.Shared {
		t.Errorf("shared: %v, %v, %v", alone.Shared, first.Shared, second.Shared)
	}
	path := first.Path
	first.Close()
	third := listen(true)
	defer third.Close()
	if !third.Shared || third.Path != path {
		t.Errorf("the name is not given again: %+v", third)
	}
}

// TestDeadHosts finds sockets that their hosts left behind: nobody takes them
// for a host, and the next host, of any configuration, removes them.
func TestDeadHosts(t *testing.T) {
	dir := filepath.Join(runtimeDir(t), dirName)
	if err := ownDir(dir); err != nil {
		t.Fatal(err)
	}
	name, err := nameOf("dead.hcl")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name+socketSuffix)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if err := os.WriteFile(filepath.Join(dir, name+lockSuffix), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(t.Context(), "dead.hcl"); err == nil {
		t.Error("a dead host was found")
	}
	s, err := Listen(dir, "other.hcl", true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if left := names(t, dir); len(left) != 2 || slices.Contains(left, name+socketSuffix) {
		t.Errorf("the directory has %q", left)
	}
}

// TestFind picks the host by its configuration, or the only one.
func TestFind(t *testing.T) {
	none := func(err error) *NoHostError {
		t.Helper()
		e, ok := errors.AsType[*NoHostError](err)
		if !ok {
			t.Fatalf("got %v, want a NoHostError", err)
		}
		return e
	}
	runtimeDir(t)
	_, err := Find(t.Context(), "")
	if e := none(err); len(e.Running) > 0 {
		t.Errorf("running: %+v", e.Running)
	}
	a, stopA := serve(t, newFake("a.hcl"))
	if c, err := Find(t.Context(), ""); err != nil || c.Path != a.Path {
		t.Errorf("the only host: %v", err)
	}
	b, _ := serve(t, newFake("b.hcl"))
	for config, want := range map[string]*Client{"a.hcl": a, "./b.hcl": b} {
		if c, err := Find(t.Context(), config); err != nil || c.Path != want.Path {
			t.Errorf("%s: %v", config, err)
		}
		if c, err := Shared(t.Context(), config); err != nil || c.Path != want.Path {
			t.Errorf("to join %s: %v", config, err)
		}
	}
	_, err = Find(t.Context(), "")
	if e := none(err); len(e.Running) != 2 {
		t.Errorf("running: %+v", e.Running)
	}
	_, err = Find(t.Context(), "c.hcl")
	if e := none(err); e.Config == "" || len(e.Running) != 2 {
		t.Errorf("no host with c.hcl: %+v", e)
	}
	again, _ := serve(t, newFake("b.hcl"))
	_, err = Find(t.Context(), "")
	for _, want := range []string{"--config a.hcl (", "--socket " + b.Path + " (process 7, with b.hcl)", "--socket " + again.Path + " ("} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("two hosts of one configuration: %v, without %q", err, want)
		}
	}
	stopA()
	_, err = Shared(t.Context(), "a.hcl")
	none(err)
}
