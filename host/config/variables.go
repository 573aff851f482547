package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// A variable is a value that may be set from outside the file.
type variable struct {
	value  cty.Value // DynamicVal after an error
	origin string    // what set it, such as "HERMES_VAR_token"; "" for the default
	at     hcl.Range // of the declaration
}

// envPrefix begins the names of environment variables that set variables.
const envPrefix = "HERMES_VAR_"

// variables evaluates the variable blocks, and puts them in scope.
// Precedence: opts.Vars, then HERMES_VAR_NAME if not empty, then the default.
func (d *decoder) variables(blocks hcl.Blocks, opts Options) {
	all := map[string]variable{}
	for _, b := range blocks {
		name, at := b.Labels[0], b.LabelRanges[0]
		if !hclsyntax.ValidIdentifier(name) {
			d.fail(at, "Invalid name", "The name of a variable consists of letters, digits, _ and -, and does not begin with a digit.")
			continue
		}
		if first, ok := all[name]; ok {
			d.fail(at, "Duplicate variable", "The variable %q was declared at %s already.", name, where(first.at))
			continue
		}
		v := d.variable(b, opts)
		v.at = at
		all[name] = v
	}
	for _, name := range slices.Sorted(maps.Keys(opts.Vars)) {
		if _, ok := all[name]; !ok {
			d.add(&hcl.Diagnostic{
				Severity: hcl.DiagError, Summary: "No such variable",
				Detail: fmt.Sprintf("--var sets the variable %q, but %s declares none of that name.%s", name, d.src.name, didYouMean(name, slices.Sorted(maps.Keys(all)))),
			})
		}
	}
	object := map[string]cty.Value{}
	for name, v := range all {
		object[name] = v.value
	}
	d.ctx.Variables["var"] = cty.ObjectVal(object)
	d.scope["var"] = slices.Sorted(maps.Keys(all))
	d.src.vars = all
}

// variable evaluates one variable block.
func (d *decoder) variable(b *hcl.Block, opts Options) variable {
	name := b.Labels[0]
	var (
		ty          = cty.DynamicPseudoType
		defaults    *typeexpr.Defaults
		description string
		isSecret    bool
		fallback    *hcl.Attribute
	)
	before := len(d.diags)
	d.body(b.Body, []attr{
		{"type", func(d *decoder, a *hcl.Attribute) {
			t, defs, diags := typeexpr.TypeConstraintWithDefaults(a.Expr)
			d.hcl(diags)
			if !diags.HasErrors() {
				ty, defaults = t, defs
			}
		}},
		text("description", &description, nil),
		boolean("sensitive", &isSecret),
		{"default", func(d *decoder, a *hcl.Attribute) { fallback = a }},
	}, nil)
	broken := variable{value: cty.DynamicVal}
	if len(d.diags) > before {
		return broken
	}

	v := variable{value: cty.NilVal}
	if text, ok := opts.Vars[name]; ok {
		v.origin, v.value = "--var", d.given(b, text, "--var", ty, fallback)
	} else if text, _ := opts.env(envPrefix + name); text != "" {
		v.origin, v.value = envPrefix+name, d.given(b, text, envPrefix+name, ty, fallback)
	} else if fallback != nil {
		if isSecret {
			d.src.hide(fallback.Expr)
		}
		if value, ok := d.value(fallback.Expr); ok {
			v.value = value
		} else {
			return broken
		}
	} else {
		d.fail(b.DefRange, "Variable not set", "The variable %q has no value. Set it with --var %s=… or the environment variable %s%s, or give it a default.", name, name, envPrefix, name)
		return broken
	}
	if v.value == cty.DynamicVal {
		return broken
	}

	if defaults != nil && !v.value.IsNull() {
		bare, marks := v.value.UnmarkDeepWithPaths()
		v.value = defaults.Apply(bare).MarkWithPaths(marks)
	}
	conv, err := convert.Convert(v.value, ty)
	if err != nil {
		if v.origin == "" {
			d.mistyped("default", fallback.Expr, v.value, ty)
		} else {
			d.fail(b.DefRange, "Wrong type", "The value that %s gives the variable %q is not of type %s: %s.", v.origin, name, typeexpr.TypeString(ty), err)
		}
		return broken
	}
	if isSecret {
		d.src.secrets.addLeaves(conv)
		conv = conv.Mark(secret)
	}
	v.value = conv
	return v
}

// given reads a value given outside the file. Texts, numbers and booleans are
// taken as they are; for other types the text is an expression of HCL without
// names, such as ["a", "b"]. The value is never shown: it may be a secret that
// only the wrong variable's declaration fails to call one.
func (d *decoder) given(b *hcl.Block, text, origin string, ty cty.Type, fallback *hcl.Attribute) cty.Value {
	if ty == cty.DynamicPseudoType && fallback != nil {
		// Without a type, the default says what is expected.
		if v, diags := fallback.Expr.Value(d.ctx); !diags.HasErrors() {
			ty = v.Type()
		}
	}
	if ty == cty.DynamicPseudoType || ty.IsPrimitiveType() {
		return cty.StringVal(text)
	}
	var expr hcl.Expression
	diags := checkDepth([]byte(text), origin)
	if !diags.HasErrors() {
		expr, diags = hclsyntax.ParseExpression([]byte(text), origin, hcl.InitialPos)
	}
	if !diags.HasErrors() {
		if v, more := expr.Value(nil); !more.HasErrors() && v.IsWhollyKnown() {
			return v
		}
	}
	d.fail(b.DefRange, "Invalid value", "The value that %s gives the variable %q is no expression of HCL. For a list write it as [\"a\", \"b\"], for a map as { key = \"value\" }.", origin, b.Labels[0])
	return cty.DynamicVal
}

// locals evaluates the locals blocks in the order of their dependencies, and
// puts the values in scope.
func (d *decoder) locals(blocks hcl.Blocks) map[string]*hcl.Attribute {
	defs := map[string]*hcl.Attribute{}
	for _, b := range blocks {
		attrs, diags := b.Body.JustAttributes()
		d.hcl(diags)
		for _, name := range slices.Sorted(maps.Keys(attrs)) {
			a := attrs[name]
			if first, ok := defs[name]; ok {
				d.fail(a.NameRange, "Duplicate local value", "The local value %q was defined at %s already.", name, where(first.NameRange))
				continue
			}
			defs[name] = a
		}
	}
	r := &resolver{d: d, defs: defs, values: map[string]cty.Value{}}
	names := slices.SortedFunc(maps.Keys(defs), func(a, b string) int {
		return defs[a].Range.Start.Byte - defs[b].Range.Start.Byte
	})
	d.scope["local"] = slices.Sorted(maps.Keys(defs))
	d.ctx.Variables["local"] = cty.EmptyObjectVal
	for _, name := range names {
		r.resolve(name)
	}
	d.ctx.Variables["local"] = cty.ObjectVal(r.values)
	return defs
}

// A resolver evaluates local values depth first.
type resolver struct {
	d      *decoder
	defs   map[string]*hcl.Attribute
	values map[string]cty.Value
	chain  []string // those being evaluated
}

// resolve evaluates one local value after those that it refers to. Those on
// a cycle become unknown, which nobody complains about again.
func (r *resolver) resolve(name string) {
	if _, done := r.values[name]; done {
		return
	}
	if i := slices.Index(r.chain, name); i >= 0 {
		cycle := append(slices.Clone(r.chain[i:]), name)
		r.d.fail(r.defs[name].NameRange, "Local values depend on each other", "These local values cannot be computed, as each needs the next: %s.", strings.Join(cycle, " → "))
		for _, n := range cycle {
			r.values[n] = cty.DynamicVal
		}
		return
	}
	r.chain = append(r.chain, name)
	a := r.defs[name]
	for _, t := range a.Expr.Variables() {
		if t.RootName() != "local" {
			continue
		}
		if len(t) > 1 {
			if dep, ok := stepName(t[1]); ok {
				if _, ok := r.defs[dep]; ok {
					r.resolve(dep)
				}
				continue
			}
		}
		r.d.fail(t.SourceRange(), "Local values depend on each other", "Within locals, refer to single values: local.NAME.")
		r.values[name] = cty.DynamicVal
	}
	r.chain = r.chain[:len(r.chain)-1]
	if _, failed := r.values[name]; failed {
		return
	}
	r.d.ctx.Variables["local"] = cty.ObjectVal(r.values)
	v, ok := r.d.value(a.Expr)
	if !ok {
		v = cty.DynamicVal
	}
	r.values[name] = v
}
