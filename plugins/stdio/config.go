package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// config is the transport "stdio" block.
type config struct {
	Command string            `hcl:"command" doc:"The program to start: a path, or a name that is looked up in PATH."`
	Args    []string          `hcl:"args,optional" doc:"Its arguments. No shell is involved: each is passed as it is."`
	Env     map[string]string `hcl:"env,optional" sensitive:"true" doc:"Environment variables, added to the small environment that every server gets."`
	Cwd     string            `hcl:"cwd,optional" doc:"The directory to start it in. The default is the host's."`
}

// validate finds what can't work and warns of what doesn't work now: a program
// may be installed after the host has started.
func validate(c config) []shared.Diagnostic {
	var all []shared.Diagnostic
	wrong := func(detail string, path ...*transportpb.PathStep) {
		all = append(all, shared.Diagnostic{Summary: "Invalid process", Detail: detail, Path: path})
	}
	if strings.TrimSpace(c.Command) == "" {
		wrong("The command is empty. Name the program that is the MCP server.", shared.Attr("command"))
	}
	if strings.ContainsRune(c.Command, 0) {
		wrong("The command contains a NUL character.", shared.Attr("command"))
	}
	for i, arg := range c.Args {
		if strings.ContainsRune(arg, 0) {
			wrong("The argument contains a NUL character.", shared.Attr("args"), shared.Index(i))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			wrong("The name of an environment variable must not be empty nor contain = or NUL.", shared.Attr("env"), shared.Key(name))
		case strings.ContainsRune(c.Env[name], 0):
			wrong("The value contains a NUL character.", shared.Attr("env"), shared.Key(name))
		}
	}
	if len(all) > 0 {
		return all
	}
	if _, end := c.resolve(); end != nil {
		all = append(all, shared.Diagnostic{Warning: true, Summary: "Server cannot start", Detail: end.Message, Path: end.Path})
	}
	return all
}

// environ returns the server's environment.
func (c config) environ() []string {
	env := shared.Environ()
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		env = append(env, name+"="+c.Env[name])
	}
	return env
}

// resolve finds the program. The error says what to change.
func (c config) resolve() (string, *shared.EndError) {
	if c.Cwd != "" {
		switch info, err := os.Stat(c.Cwd); {
		case err != nil:
			return "", shared.ConfigError(fmt.Sprintf("can't start in the directory %q: %v", c.Cwd, bare(err)), shared.Attr("cwd"))
		case !info.IsDir():
			return "", shared.ConfigError(fmt.Sprintf("can't start in %q, which is no directory", c.Cwd), shared.Attr("cwd"))
		}
	}
	if !c.searched() {
		file := c.Command
		if c.Cwd != "" && !filepath.IsAbs(file) {
			file = filepath.Join(c.Cwd, file)
		}
		found, err := exec.LookPath(file)
		if err == nil || errors.Is(err, exec.ErrDot) {
			if abs, err := filepath.Abs(found); err == nil {
				found = abs
			}
			return found, nil
		}
		return "", shared.ConfigError(fmt.Sprintf("can't start %q: %v%s", file, bare(err), c.hint()), shared.Attr("command"))
	}
	path := c.path()
	var unusable string
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(cmp.Or(dir, "."), c.Command)
		if !filepath.IsAbs(file) {
			continue // a program is never taken from the current directory
		}
		found, err := exec.LookPath(file)
		if err == nil {
			return found, nil
		}
		if unusable == "" && errors.Is(err, fs.ErrPermission) {
			unusable = file
		}
	}
	if unusable != "" {
		return "", shared.ConfigError(fmt.Sprintf("can't start %q: %q is not executable", c.Command, unusable), shared.Attr("command"))
	}
	return "", shared.ConfigError(fmt.Sprintf("no such command: %q is in no directory of PATH; give its full path, or set PATH in env%s",
		c.Command, c.hint()), shared.Attr("command"))
}

// searched reports whether the program is looked up by its name.
func (c config) searched() bool {
	return !strings.ContainsRune(c.Command, '/') && !strings.ContainsRune(c.Command, filepath.Separator)
}

// path is where a program is looked up.
func (c config) path() string { return cmp.Or(c.Env["PATH"], os.Getenv("PATH")) }

// hint recognises a command line in the place of a command.
func (c config) hint() string {
	if strings.Contains(strings.TrimSpace(c.Command), " ") && len(c.Args) == 0 {
		// Without the word itself: the host knows a secret only as a whole.
		return "; if the program is the first word of that, the rest belongs in args"
	}
	if runtime.GOOS != "windows" && strings.HasPrefix(c.Command, "~") {
		return `; "~" is not expanded here`
	}
	return ""
}

// bare returns the reason in err without the operation and the path.
func bare(err error) error {
	if e, ok := errors.AsType[*exec.Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return err
}
