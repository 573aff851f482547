package launcher

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// This file finds the executable of a plugin, and verifies it.

// A Command says how a plugin is started.
type Command struct {
	// Path is the executable: a path, or a name to be found in PATH.
	Path string
	Args []string
	// SHA256 is the checksum that the file must have, in hexadecimal; empty:
	// it is not checked. It is compared before every start.
	SHA256 string
	// Env is added to the plugin's minimal environment. Its values are never
	// logged.
	Env map[string]string
}

func (c Command) equal(d Command) bool {
	return c.Path == d.Path && c.SHA256 == d.SHA256 && slices.Equal(c.Args, d.Args) && maps.Equal(c.Env, d.Env)
}

// prefix begins the file names of plugins that are found by their name.
const prefix = "hermes-transport-"

// kindName is what a kind may look like: it becomes part of a file name.
var kindName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// executableDirs returns the directory of the running executable, and the one
// that it really lies in if it was started through a link.
func executableDirs() []string {
	exe, err := os.Executable()
	if err != nil {
		return nil
	}
	dirs := []string{filepath.Dir(exe)}
	if real, err := filepath.EvalSymlinks(exe); err == nil && filepath.Dir(real) != dirs[0] {
		dirs = append(dirs, filepath.Dir(real))
	}
	return dirs
}

// A Kind is a plugin that was found. It has not been started: whether it works
// is for [Launcher.Describe] to say.
type Kind struct {
	Kind  string
	Path  string // the executable; as configured if it could not be found
	Named bool   // by a plugin block of the configuration
}

// Kinds returns the plugins that are there, sorted by kind.
func (l *Launcher) Kinds() []Kind {
	found := make(map[string]Kind)
	for _, dir := range slices.Backward(l.dirs) {
		paths, err := filepath.Glob(filepath.Join(escapeGlob(dir), prefix+"*"))
		if err != nil { // the pattern is well-formed
			continue
		}
		for _, path := range paths {
			kind := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), prefix), executableSuffix)
			if kindName.MatchString(kind) && isExecutable(path) {
				found[kind] = Kind{Kind: kind, Path: path}
			}
		}
	}
	l.mu.Lock()
	for kind, c := range l.commands {
		path := c.Path
		if full, err := exec.LookPath(path); err == nil {
			path = full
		}
		found[kind] = Kind{Kind: kind, Path: path, Named: true}
	}
	l.mu.Unlock()
	return slices.SortedFunc(maps.Values(found), func(a, b Kind) int { return cmp.Compare(a.Kind, b.Kind) })
}

var executableSuffix = map[bool]string{true: ".exe"}[runtime.GOOS == "windows"]

func escapeGlob(dir string) string {
	if runtime.GOOS == "windows" {
		return dir // a backslash separates there and cannot escape
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode()&0o111 != 0)
}

// An executable is the file behind a Command at one time. Two of the same value
// start the same program.
type executable struct {
	command Command
	path    string
	size    int64
	changed time.Time
}

func (e *executable) same(f *executable) bool {
	return e.path == f.path && e.size == f.size && e.changed.Equal(f.changed) && e.command.equal(f.command)
}

// find returns the executable for kind, or an End of class ConfigFault.
func (l *Launcher) find(kind string) (*executable, error) {
	if !kindName.MatchString(kind) {
		return nil, fault("%q is no kind of transport: use letters, digits, - and _", kind)
	}
	l.mu.Lock()
	command, named := l.commands[kind]
	l.mu.Unlock()
	if !named {
		for _, dir := range l.dirs {
			if path := filepath.Join(dir, prefix+kind+executableSuffix); isExecutable(path) {
				command = Command{Path: path}
				break
			}
		}
		if command.Path == "" {
			return nil, l.unknown(kind)
		}
	}
	path, err := exec.LookPath(command.Path)
	switch {
	case errors.Is(err, exec.ErrDot):
		// Only a name without a directory gets here; the current
		// directory is no place to find it by accident.
		return nil, fault("plugin %q: %s lies in the current directory; write ./%[2]s if that is the one", kind, command.Path)
	case errors.Is(err, fs.ErrPermission):
		return nil, fault("plugin %q: %s is not executable", kind, command.Path)
	case err != nil:
		return nil, fault("plugin %q: there is no executable %s", kind, command.Path)
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, gone("plugin %q: finding the current directory: %v", kind, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fault("plugin %q: %v", kind, err)
	}
	return &executable{command: command, path: path, size: info.Size(), changed: info.ModTime()}, nil
}

func (l *Launcher) unknown(kind string) error {
	var known []string
	for _, k := range l.Kinds() {
		known = append(known, k.Kind)
	}
	there := "no plugins are there"
	if len(known) > 0 {
		there = "there are plugins for " + strings.Join(known, ", ")
	}
	return fault("no plugin for transport %q: %s%s is not in %s, and no plugin block names it (%s)",
		kind, prefix, kind, strings.Join(l.dirs, " or "), there)
}

// verify compares the file with the checksum that its Command wants.
func (e *executable) verify(ctx context.Context) error {
	if e.command.SHA256 == "" {
		return nil
	}
	text := strings.TrimPrefix(strings.TrimSpace(e.command.SHA256), "sha256:")
	want, err := hex.DecodeString(text)
	if err != nil || len(want) != sha256.Size {
		return fault("plugin %s: the configured sha256 %q is not 64 hexadecimal digits", e.path, e.command.SHA256)
	}
	f, err := os.Open(e.path)
	if err != nil {
		return fault("plugin %s: reading it for its checksum: %v", e.path, err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, &interruptible{ctx, f}); err != nil {
		return gone("plugin %s: reading it for its checksum: %v", e.path, err)
	}
	found := sum.Sum(nil)
	if subtle.ConstantTimeCompare(found, want) != 1 {
		return fault("plugin %s: its checksum is not the configured one: want sha256 %x, found %x; "+
			"if the file was updated on purpose, put the new checksum into its plugin block", e.path, want, found)
	}
	return nil
}

// interruptible is a reader that fails when its context has ended.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (i *interruptible) Read(p []byte) (int, error) {
	if i.ctx.Err() != nil {
		return 0, context.Cause(i.ctx)
	}
	return i.r.Read(p)
}
