package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// pure are the functions that depend on their arguments alone. The whole
// table, with those of [scopeFunctions], is described in
// docs/configuration.md; a test compares the two.
var pure = map[string]function.Function{
	"base64decode": base64decode,
	"base64encode": base64encode,
	"basename":     pathFunction(filepath.Base),
	"can":          tryfunc.CanFunc,
	"chomp":        stdlib.ChompFunc,
	"coalesce":     stdlib.CoalesceFunc,
	"compact":      stdlib.CompactFunc,
	"concat":       stdlib.ConcatFunc,
	"contains":     stdlib.ContainsFunc,
	"dirname":      pathFunction(filepath.Dir),
	"distinct":     stdlib.DistinctFunc,
	"element":      stdlib.ElementFunc,
	"flatten":      stdlib.FlattenFunc,
	"format":       stdlib.FormatFunc,
	"formatlist":   stdlib.FormatListFunc,
	"join":         stdlib.JoinFunc,
	"jsondecode":   stdlib.JSONDecodeFunc,
	"jsonencode":   stdlib.JSONEncodeFunc,
	"keys":         stdlib.KeysFunc,
	"length":       stdlib.LengthFunc,
	"lookup":       stdlib.LookupFunc,
	"lower":        stdlib.LowerFunc,
	"max":          stdlib.MaxFunc,
	"merge":        stdlib.MergeFunc,
	"min":          stdlib.MinFunc,
	"regex":        stdlib.RegexFunc,
	"regexall":     stdlib.RegexAllFunc,
	"regexreplace": stdlib.RegexReplaceFunc,
	"replace":      stdlib.ReplaceFunc,
	"reverse":      stdlib.ReverseListFunc,
	"slice":        stdlib.SliceFunc,
	"sort":         stdlib.SortFunc,
	"split":        stdlib.SplitFunc,
	"substr":       stdlib.SubstrFunc,
	"tobool":       stdlib.MakeToFunc(cty.Bool),
	"tonumber":     stdlib.MakeToFunc(cty.Number),
	"tostring":     stdlib.MakeToFunc(cty.String),
	"trim":         stdlib.TrimFunc,
	"trimprefix":   stdlib.TrimPrefixFunc,
	"trimspace":    stdlib.TrimSpaceFunc,
	"trimsuffix":   stdlib.TrimSuffixFunc,
	"try":          tryfunc.TryFunc,
	"upper":        stdlib.UpperFunc,
	"values":       stdlib.ValuesFunc,
	"zipmap":       stdlib.ZipmapFunc,
}

// growth are the bounds of those whose result can be much larger than their
// arguments.
var growth = map[string]func([]cty.Value) error{
	"format":       formats,
	"formatlist":   formats,
	"join":         joins,
	"regexreplace": matches,
	"replace":      replaces,
}

// functions returns the table for one file. Relative paths are relative to
// dir; lookup reads the environment; what is secret is remembered.
func functions(dir string, lookup func(string) (string, bool), s *secrets) map[string]function.Function {
	table := maps.Clone(pure)
	for name, f := range table {
		if name == "try" || name == "can" {
			continue // they take expressions, not values
		}
		table[name] = bounded(f, growth[name])
	}
	maps.Copy(table, scopeFunctions(dir, lookup, s))
	return table
}

// scopeFunctions are those that depend on where they are called.
func scopeFunctions(dir string, lookup func(string) (string, bool), s *secrets) map[string]function.Function {
	return map[string]function.Function{
		"abspath": pathFunction(func(p string) string {
			if !filepath.IsAbs(p) {
				p = filepath.Join(dir, p)
			}
			return filepath.Clean(p)
		}),
		"env":        envFunction(lookup, s),
		"file":       fileFunction(dir, s),
		"pathexpand": pathExpand(lookup),
		"sensitive":  sensitiveFunction(s),
	}
}

// A callError is a failure of one of our functions in words for people, which
// replace HCL's.
type callError struct{ summary, detail string }

// Error returns both in one line, for try() to show.
func (e *callError) Error() string { return e.summary + ": " + e.detail }

func callErrorf(summary, format string, args ...any) error {
	return &callError{summary, fmt.Sprintf(format, args...)}
}

// unexpanded matches a value that is nothing but a shell's reference to a
// variable: somebody expected it to be replaced, and nobody did.
var unexpanded = regexp.MustCompile(`^\$\{[A-Za-z_][A-Za-z0-9_]*\}$`)

// envFunction is env(name) and env(name, default). An empty variable counts as
// one that is not set, so that an empty token never goes out unnoticed. The
// result is secret, unless it is the default.
func envFunction(lookup func(string) (string, bool), s *secrets) function.Function {
	return function.New(&function.Spec{
		Params:   []function.Parameter{{Name: "name", Type: cty.String}},
		VarParam: &function.Parameter{Name: "default", Type: cty.String, AllowNull: true},
		Type:     function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			name := args[0].AsString()
			if len(args) > 2 {
				return cty.NilVal, function.NewArgErrorf(2, "env takes a name and at most one default")
			}
			if name == "" || strings.ContainsAny(name, "=\x00") {
				return cty.NilVal, callErrorf("Invalid name", "The name of an environment variable cannot be empty or contain an equals sign.")
			}
			v, set := lookup(name)
			switch {
			case v != "" && !utf8.ValidString(v):
				return cty.NilVal, callErrorf("Invalid environment variable", "The value of the environment variable %s is not UTF-8.", name)
			case unexpanded.MatchString(v):
				return cty.NilVal, callErrorf("Environment variable not expanded",
					"The environment variable %s holds the text of a reference like ${NAME}, which whatever set it did not replace. Set it to the value itself.", name)
			case v != "":
				s.add(v)
				return cty.StringVal(v).Mark(secret), nil
			case len(args) == 2:
				return args[1], nil
			}
			state := "not set"
			if set {
				state = "set but empty"
			}
			return cty.NilVal, callErrorf("Environment variable "+state,
				"The environment variable %s is %s. Set it before the host starts, or give a value to use instead: env(%q, \"…\").", name, state, name)
		},
	})
}

// maxFile bounds what file() reads.
const maxFile = 1 << 20

// fileFunction is file(path). The result is secret: what people read from
// files here is tokens.
func fileFunction(dir string, s *secrets) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			path := args[0].AsString()
			if !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
			data, err := readFile(path, maxFile)
			if err != nil {
				return cty.NilVal, callErrorf("File not readable", "%s.", err)
			}
			if !utf8.Valid(data) {
				return cty.NilVal, callErrorf("File not readable", "%s is not a UTF-8 text.", path)
			}
			s.add(string(data))
			return cty.StringVal(string(data)).Mark(secret), nil
		},
	})
}

// readFile reads a regular file of at most limit bytes. Its errors are whole
// clauses that name the path and say what is wrong.
func readFile(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s does not exist", path)
	case err != nil:
		return nil, fmt.Errorf("%s cannot be read: %w", path, plain(err))
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case info.Size() > limit:
		return nil, fmt.Errorf("%s has %d bytes; at most %s are read", path, info.Size(), sizeText(limit))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", path, plain(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", path, plain(err))
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s has more than %s", path, sizeText(limit))
	}
	return data, nil
}

// plain strips the operation and the path off a file error.
func plain(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// sensitiveFunction is sensitive(value): the value, never to be shown.
func sensitiveFunction(s *secrets) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowNull: true}},
		Type:   func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			s.addLeaves(args[0])
			return args[0].Mark(secret), nil
		},
	})
}

// pathExpand is pathexpand(path): a leading ~ becomes the home directory.
func pathExpand(lookup func(string) (string, bool)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			p := args[0].AsString()
			if p != "~" && !strings.HasPrefix(p, "~/") && !strings.HasPrefix(p, `~\`) {
				return args[0], nil
			}
			home, _ := lookup("HOME")
			if home == "" {
				home, _ = os.UserHomeDir()
			}
			if home == "" {
				return cty.NilVal, callErrorf("No home directory", "The home directory is not known: HOME is not set.")
			}
			return cty.StringVal(filepath.Join(home, p[1:])), nil
		},
	})
}

// pathFunction makes a function of one path.
func pathFunction(f func(string) string) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.StringVal(f(args[0].AsString())), nil
		},
	})
}

var base64encode = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "text", Type: cty.String}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		return cty.StringVal(base64.StdEncoding.EncodeToString([]byte(args[0].AsString()))), nil
	},
})

var base64decode = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "text", Type: cty.String}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		data, err := base64.StdEncoding.DecodeString(args[0].AsString())
		if err != nil || !utf8.Valid(data) {
			return cty.NilVal, function.NewArgErrorf(0, "it is not the base64 of a UTF-8 text")
		}
		return cty.StringVal(string(data)), nil
	},
})
