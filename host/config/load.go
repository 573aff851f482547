package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
)

// maxConfig bounds the configuration file.
const maxConfig = 1 << 20

// Options are what a file's meaning depends on besides its text.
type Options struct {
	// Vars are values of variables, by name, as given on the command line.
	Vars map[string]string

	// LookupEnv reads an environment variable; nil: [os.LookupEnv].
	LookupEnv func(name string) (string, bool)

	// Executable is the running program, absolute: hermes.executable. Empty:
	// [os.Executable].
	Executable string

	// Version is the program's version: hermes.version.
	Version string
}

func (o Options) env(name string) (string, bool) {
	if o.LookupEnv != nil {
		return o.LookupEnv(name)
	}
	return os.LookupEnv(name)
}

// File is a configuration file after the first phase: everything but the
// transport blocks is evaluated. It does not change; Resolve may be called
// several times, and concurrently.
type File struct {
	// Plugins are the plugin blocks, which whoever implements [Plugins] needs
	// to find the plugins of third parties. One that is wrong is not among
	// them.
	Plugins []Plugin

	config   Config // servers without transports
	scope    *scope
	mistakes hcl.Diagnostics // outside the transport blocks; empty unless there are errors
	unsound  map[string]bool // kinds whose plugin block is wrong: they must not be started
}

// Listen returns where and how the host serves, which needs no plugin.
func (f *File) Listen() Listen { return f.config.Listen }

// Log returns the settings of the log, which are needed before any plugin is
// asked.
func (f *File) Log() Log { return f.config.Log }

// scope is what transport blocks are evaluated in, and their diagnostics
// written with.
type scope struct {
	ctx    *hcl.EvalContext
	names  map[string][]string
	src    *source
	locals map[string]*hcl.Attribute
}

// decoder returns a decoder for the scope, with no diagnostics.
func (s *scope) decoder() *decoder {
	return &decoder{ctx: s.ctx, scope: s.names, src: s.src}
}

// Load reads the file at path: native HCL, or JSON if its name ends in
// ".json". All that is wrong with the syntax is reported together, and if that
// is right all that is wrong outside the transport blocks. In both cases the
// configuration cannot be used. The File is nil if the syntax or the outermost
// blocks are wrong; if it is not, [File.Resolve] finds what else is wrong.
func Load(path string, opts Options) (*File, Diagnostics) {
	text, err := readFile(path, maxConfig)
	if err != nil {
		return nil, problem("Configuration not readable", "%s. Name a configuration file with --config, or write one: a server block is all it takes.", err)
	}
	return Parse(text, path, opts)
}

// problem returns an error that has no place in a file.
func problem(summary, format string, args ...any) Diagnostics {
	return Diagnostics{src: &source{}, list: hcl.Diagnostics{{
		Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(format, args...),
	}}}
}

// Parse is [Load] for a text that was read already. The path names it in
// diagnostics and says what relative paths are relative to.
func Parse(text []byte, path string, opts Options) (*File, Diagnostics) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, problem("Configuration not readable", "The place of %s is not known: %s.", path, err)
	}
	if opts.Executable == "" {
		if opts.Executable, err = os.Executable(); err != nil {
			return nil, problem("Program not known", "The running program's own path is not known: %s.", err)
		}
	}
	if diags, ok := fromClient(text, path); ok {
		return nil, diags
	}
	parsed, diags := parse(text, path)
	src := &source{name: path, text: append([]byte(nil), text...), secrets: &secrets{}}
	if parsed != nil {
		src.nav = parsed.Nav
	}
	if diags.HasErrors() {
		return nil, Diagnostics{list: distinct(diags), src: src}
	}
	src.hideMarked(parsed.Body)

	dir := filepath.Dir(abs)
	d := &decoder{
		src: src,
		ctx: &hcl.EvalContext{
			Functions: functions(dir, opts.env, src.secrets),
			Variables: map[string]cty.Value{"hermes": cty.ObjectVal(map[string]cty.Value{
				"config_dir": cty.StringVal(dir),
				"executable": cty.StringVal(opts.Executable),
				"version":    cty.StringVal(opts.Version),
			})},
		},
		scope: map[string][]string{"hermes": {"config_dir", "executable", "version"}},
	}
	f := &File{config: Config{Path: abs, Dir: dir, secrets: src.secrets}}
	locals, sound := d.file(parsed.Body, f, opts)
	f.Plugins = f.config.Plugins
	f.scope = &scope{ctx: d.ctx, names: d.scope, src: src, locals: locals}
	for i := range f.config.Servers {
		if o := f.config.Servers[i].origin; o != nil {
			o.scope = f.scope
		}
	}
	out := Diagnostics{list: sorted(d.diags), src: src}
	if out.HasErrors() {
		f.mistakes = out.list
	}
	if !sound {
		return nil, out
	}
	return f, out
}

// parse reads the syntax.
func parse(text []byte, path string) (*hcl.File, hcl.Diagnostics) {
	if strings.HasSuffix(path, ".json") {
		if diags := checkJSONDepth(text, path); diags.HasErrors() {
			return nil, diags
		}
		return json.Parse(text, path)
	}
	if diags := checkDepth(text, path); diags.HasErrors() {
		return nil, diags
	}
	return hclsyntax.ParseConfig(text, path, hcl.InitialPos)
}

// distinct drops complaints that the parser repeats after it lost its way at
// the first.
func distinct(diags hcl.Diagnostics) hcl.Diagnostics {
	seen := map[string]bool{}
	return slices.DeleteFunc(diags, func(g *hcl.Diagnostic) bool {
		text := g.Summary + g.Detail
		defer func() { seen[text] = true }()
		return seen[text]
	})
}
