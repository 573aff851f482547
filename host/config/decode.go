package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// A decoder evaluates expressions and collects all that is wrong with them.
//
// Host-owned blocks are decoded with tables of [attr] and [sub] rather than
// with gohcl, which knows nothing of marks and gives up at the first error.
type decoder struct {
	ctx   *hcl.EvalContext
	scope map[string][]string // what exists: root name to its attributes
	diags hcl.Diagnostics
	src   *source
}

func (d *decoder) add(g *hcl.Diagnostic) { d.diags = append(d.diags, g) }

// fail reports an error at a range.
func (d *decoder) fail(at hcl.Range, summary, format string, args ...any) {
	d.add(&hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(format, args...), Subject: at.Ptr(),
	})
}

// hcl takes over the diagnostics of HCL, with our own words where a function
// of ours failed.
func (d *decoder) hcl(diags hcl.Diagnostics) {
	for _, g := range diags {
		if extra, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](g); ok {
			if e, ok := errors.AsType[*callError](extra.FunctionCallError()); ok {
				g.Summary, g.Detail = e.summary, e.detail
			} else if name := extra.CalledFunctionName(); extra.FunctionCallError() != nil && name != "try" && touchesSecret(g.Expression, g.EvalContext) {
				// Errors of parsers quote what they read.
				g.Detail = fmt.Sprintf("The function %q failed on a sensitive value. The reason is not shown, as it could contain the value.", name)
			}
		}
		d.add(g)
	}
}

// touchesSecret reports whether an expression refers to a secret.
func touchesSecret(expr hcl.Expression, ctx *hcl.EvalContext) bool {
	if expr == nil {
		return false
	}
	for _, t := range expr.Variables() {
		if v, diags := t.TraverseAbs(ctx); diags.HasErrors() || v.ContainsMarked() {
			return true
		}
	}
	e, ok := expr.(hclsyntax.Expression)
	if !ok {
		return true
	}
	found := false
	_ = hclsyntax.VisitAll(e, func(n hclsyntax.Node) hcl.Diagnostics {
		if call, ok := n.(*hclsyntax.FunctionCallExpr); ok {
			found = found || call.Name == "env" || call.Name == "file" || call.Name == "sensitive"
		}
		return nil
	})
	return found
}

// value evaluates an expression. Marks stay. It returns false if there is
// nothing to go on with: an error, reported here or where the unknown value
// came from.
func (d *decoder) value(expr hcl.Expression) (cty.Value, bool) {
	if !d.references(expr) || !d.fits(expr) || !d.turns(expr) {
		return cty.DynamicVal, false
	}
	v, diags := expr.Value(d.ctx)
	d.hcl(diags)
	if v.ContainsMarked() {
		d.src.secrets.rememberMarked(v)
		d.src.secrets.rememberParts(expr, d.ctx)
	}
	return v, !diags.HasErrors() && v.IsWhollyKnown()
}

// maxReferred bounds what the values that one expression refers to have
// together, in bytes. Without it ten lines that repeat each other ten times
// fill the memory, and a reload would take the running host along.
const maxReferred = 16 << 20

// fits reports whether an expression stays within maxReferred, and says so if
// not.
func (d *decoder) fits(expr hcl.Expression) bool {
	left := maxReferred
	for _, t := range expr.Variables() {
		v, diags := t.TraverseAbs(d.ctx)
		if diags.HasErrors() {
			continue // which evaluating it says better
		}
		if left -= weigh(v); left < 0 {
			d.fail(t.SourceRange(), "Value too large", "The values that this expression refers to have more than %d MiB together.", maxReferred>>20)
			return false
		}
	}
	return true
}

// weigh estimates the bytes that a value holds.
func weigh(v cty.Value) (n int) {
	v, _ = v.UnmarkDeep()
	_ = cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) {
		n += 8
		if v.IsKnown() && !v.IsNull() && v.Type() == cty.String {
			n += len(v.AsString())
		}
		return true, nil
	})
	return n
}

// as evaluates an attribute of a host-owned block and converts it. The value
// comes back without marks; isSecret says whether it had any. It returns false
// for null too, which is as good as absent.
func (d *decoder) as(a *hcl.Attribute, want cty.Type) (v cty.Value, isSecret, ok bool) {
	v, ok = d.value(a.Expr)
	if !ok {
		return v, false, false
	}
	v, marks := v.UnmarkDeep()
	if v.IsNull() {
		return v, false, false
	}
	conv, err := convert.Convert(v, want)
	if err != nil {
		d.mistyped(a.Name, a.Expr, v, want)
		return v, false, false
	}
	return conv, len(marks) > 0, true
}

// mistyped reports a value that does not convert, at the element at fault.
func (d *decoder) mistyped(name string, expr hcl.Expression, v cty.Value, want cty.Type) {
	path, err := mismatch(v, want)
	element := pathText(path)
	if element != "" {
		element += ": "
	}
	hint := ""
	if bare, _ := v.Unmark(); len(path) == 0 && bare.Type().IsPrimitiveType() && (want.IsListType() || want.IsSetType()) {
		hint = " A list is written in brackets, even if it has one element."
	}
	d.add(&hcl.Diagnostic{
		Severity: hcl.DiagError,
		Summary:  "Wrong type",
		Detail:   fmt.Sprintf("The value does not suit %q: %s%s.%s", name, element, err, hint),
		Subject:  walk(expr, path, d.ctx).Range().Ptr(), Expression: expr, EvalContext: d.ctx,
	})
}

// mismatch returns the innermost part of a value that does not convert, and
// why.
func mismatch(v cty.Value, want cty.Type) ([]any, error) {
	v, _ = v.UnmarkDeep()
	_, err := convert.Convert(v, want)
	if err == nil || v.IsNull() || !v.IsKnown() || !v.CanIterateElements() {
		return nil, err
	}
	elem := func(cty.Value) (cty.Type, bool) { return cty.Type{}, false }
	switch ty := v.Type(); {
	case want.IsObjectType() && (ty.IsObjectType() || ty.IsMapType()):
		elem = func(k cty.Value) (cty.Type, bool) {
			if name := k.AsString(); want.HasAttribute(name) {
				return want.AttributeType(name), true
			}
			return cty.Type{}, false
		}
	case want.IsMapType() && (ty.IsObjectType() || ty.IsMapType()),
		(want.IsListType() || want.IsSetType()) && (ty.IsTupleType() || ty.IsListType()):
		elem = func(cty.Value) (cty.Type, bool) { return want.ElementType(), true }
	}
	i := 0
	for it := v.ElementIterator(); it.Next(); i++ {
		k, e := it.Element()
		t, ok := elem(k)
		if !ok {
			continue
		}
		if path, inner := mismatch(e, t); inner != nil {
			var step any = i
			if k.Type() == cty.String {
				step = k.AsString()
			}
			return append([]any{step}, path...), inner
		}
	}
	return nil, err
}

// pathText returns a path as people write it.
func pathText(path []any) string {
	var b strings.Builder
	for i, step := range path {
		switch s := step.(type) {
		case string:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s)
		case int:
			fmt.Fprintf(&b, "[%d]", s)
		}
	}
	return b.String()
}

// references checks that what an expression refers to exists, and says in our
// words what does not.
func (d *decoder) references(expr hcl.Expression) bool {
	ok := true
	for _, t := range expr.Variables() {
		root := t.RootName()
		names, known := d.scope[root]
		switch {
		case !known:
			ok = false
			d.fail(t[0].SourceRange(), "Unknown name", "%s", d.unknownRoot(root))
		case len(t) > 1:
			name, static := stepName(t[1])
			if !static || slices.Contains(names, name) {
				continue
			}
			ok = false
			var what string
			switch root {
			case "var":
				what = fmt.Sprintf("There is no variable %q.%s Variables are declared with a block: variable %q { }.", name, didYouMean(name, names), name)
			case "local":
				what = fmt.Sprintf("There is no local value %q.%s Local values are defined in a locals block.", name, didYouMean(name, names))
			default:
				what = fmt.Sprintf("%q has no attribute %q.%s It has: %s.", root, name, didYouMean(name, names), strings.Join(names, ", "))
			}
			d.fail(t.SourceRange(), "Unknown name", "%s", what)
		}
	}
	return ok
}

// unknownRoot says what to do about a name that is not in scope.
func (d *decoder) unknownRoot(name string) string {
	switch {
	case name == "var" || name == "local":
		return fmt.Sprintf("%q cannot be used here: a variable's default is computed before there are variables and local values. Use a locals block for values that depend on others.", name)
	case envForm.MatchString(name) && strings.ToUpper(name) == name:
		return fmt.Sprintf("There is nothing named %q. For the environment variable write env(%q); in a string: \"${env(%q)}\". For the characters as they are write $${%s}.", name, name, name, name)
	}
	if s := suggest(name, slices.Sorted(maps.Keys(d.scope))); s != "" {
		return fmt.Sprintf("There is nothing named %q. Did you mean %q?", name, s)
	}
	return fmt.Sprintf("There is nothing named %q. A text needs quotes: %q. Variables are var.NAME, local values local.NAME.", name, name)
}

// suggest returns the candidate that is closest to a name, "" if none is
// close.
func suggest(name string, candidates []string) string {
	best, dist := "", 3
	if len(name) <= 3 {
		dist = 2
	}
	for _, c := range candidates {
		if n := levenshtein.Distance(strings.ToLower(name), strings.ToLower(c), nil); n < dist {
			best, dist = c, n
		}
	}
	return best
}

// didYouMean returns the suggestion as a sentence with a space before it.
func didYouMean(name string, candidates []string) string {
	if s := suggest(name, candidates); s != "" {
		return fmt.Sprintf(" Did you mean %q?", s)
	}
	return ""
}

// An attr is an attribute of a host-owned block: its name and what to do with
// it if it is there.
type attr struct {
	name string
	set  func(*decoder, *hcl.Attribute)
}

// A sub is a block within a host-owned block.
type sub struct {
	name   string
	labels []string // what the labels are
	many   bool
	set    func(*decoder, *hcl.Block)
}

// body decodes the body of a host-owned block.
func (d *decoder) body(b hcl.Body, attrs []attr, subs []sub) {
	schema := &hcl.BodySchema{}
	for _, a := range attrs {
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: a.name})
	}
	for _, s := range subs {
		schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: s.name, LabelNames: s.labels})
	}
	content, diags := b.Content(schema)
	d.hcl(diags)
	if content == nil {
		return
	}
	for _, a := range attrs {
		if at, ok := content.Attributes[a.name]; ok {
			a.set(d, at)
		}
	}
	for _, s := range subs {
		var first *hcl.Block
		for _, block := range content.Blocks.OfType(s.name) {
			if first != nil && !s.many {
				d.fail(block.DefRange, "Duplicate block", "There can be only one %q block here; the first is at %s.", s.name, where(first.DefRange))
				continue
			}
			first = block
			s.set(d, block)
		}
	}
}
