package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// The evaluation of a transport block against its plugin's schema: what hcldec
// does, and what it does not: places within a value, unknown attributes within
// objects, nulls, and references that nobody replaced.

// transport evaluates the attributes of a transport block, and applies
// defaults. Marks stay on the values.
func (d *decoder) transport(o *origin, sc *schema) map[string]cty.Value {
	body := &hcl.BodySchema{}
	for _, a := range sc.attrs {
		body.Attributes = append(body.Attributes, hcl.AttributeSchema{Name: a.name})
	}
	content, diags := o.transport.Body.Content(body)
	o.attrs = content.Attributes
	for _, a := range sc.attrs {
		if at, ok := o.attrs[a.name]; ok && a.sensitive {
			d.src.hide(at.Expr)
		}
	}
	d.hcl(diags)
	values := map[string]cty.Value{}
	for _, a := range sc.attrs {
		at, ok := o.attrs[a.name]
		if !ok {
			if a.required {
				d.fail(o.transport.DefRange, "Missing argument", "The transport %q needs %q.%s", o.transport.Labels[0], a.name, sentence(a.doc))
			}
			values[a.name] = a.fallback
			continue
		}
		values[a.name] = d.pluginValue(o, at, a)
	}
	return values
}

// sentence returns a doc text for use after a sentence.
func sentence(doc string) string {
	if doc = strings.TrimSpace(doc); doc == "" {
		return ""
	}
	return " " + doc
}

// literalReference is a reference that nobody replaced, in the middle of a
// text.
var literalReference = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)

// pluginValue evaluates one attribute of a transport block.
func (d *decoder) pluginValue(o *origin, at *hcl.Attribute, a attribute) cty.Value {
	v, ok := d.value(at.Expr)
	if !ok {
		return cty.DynamicVal
	}
	if bare, _ := v.Unmark(); bare.IsNull() {
		if a.required {
			d.fail(at.Expr.Range(), "Missing argument", "%q cannot be null.%s", at.Name, sentence(a.doc))
		}
		return a.fallback
	}
	d.extraneous(at, v, a.ty)
	conv, err := convert.Convert(v, a.ty)
	if err != nil {
		d.mistyped(at.Name, at.Expr, v, a.ty)
		return cty.DynamicVal
	}
	conv = d.withoutNulls(at, conv)
	d.unreplaced(o, at, a, conv)
	return conv
}

// extraneous reports attributes of objects that the type does not have;
// conversion would drop them silently.
func (d *decoder) extraneous(at *hcl.Attribute, v cty.Value, want cty.Type) {
	bare, _ := v.UnmarkDeep()
	var check func(v cty.Value, want cty.Type, path []any)
	check = func(v cty.Value, want cty.Type, path []any) {
		if v.IsNull() || !v.IsKnown() {
			return
		}
		ty := v.Type()
		each := func(elem func(i int, key cty.Value) (cty.Type, bool)) {
			i := 0
			for it := v.ElementIterator(); it.Next(); i++ {
				k, e := it.Element()
				if t, ok := elem(i, k); ok {
					var step any = i
					if k.Type() == cty.String && !ty.IsSetType() {
						step = k.AsString()
					}
					check(e, t, append(slices.Clone(path), step))
				}
			}
		}
		switch {
		case want.IsObjectType() && (ty.IsObjectType() || ty.IsMapType()):
			names := slices.Sorted(maps.Keys(want.AttributeTypes()))
			each(func(_ int, k cty.Value) (cty.Type, bool) {
				name := k.AsString()
				if want.HasAttribute(name) {
					return want.AttributeType(name), true
				}
				d.fail(walk(at.Expr, append(slices.Clone(path), name), d.ctx).Range(), "Unsupported argument",
					"%q has no attribute %q here.%s", at.Name, name, didYouMean(name, names))
				return cty.Type{}, false
			})
		case want.IsCollectionType() && v.CanIterateElements():
			each(func(int, cty.Value) (cty.Type, bool) { return want.ElementType(), true })
		case want.IsTupleType() && v.CanIterateElements():
			elems := want.TupleElementTypes()
			each(func(i int, _ cty.Value) (cty.Type, bool) {
				if i < len(elems) {
					return elems[i], true
				}
				return cty.Type{}, false
			})
		}
	}
	check(bare, want, nil)
}

// withoutNulls leaves out the entries of maps that are null, so that a
// conditional can leave one out, and reports null elements of lists.
func (d *decoder) withoutNulls(at *hcl.Attribute, v cty.Value) cty.Value {
	out, err := cty.TransformWithTransformer(v, nullDropper{d, at})
	if err != nil {
		return cty.DynamicVal // reported
	}
	return out
}

type nullDropper struct {
	d  *decoder
	at *hcl.Attribute
}

// Enter implements cty.Transformer.
func (n nullDropper) Enter(_ cty.Path, v cty.Value) (cty.Value, error) {
	bare, marks := v.Unmark()
	if !bare.Type().IsMapType() || bare.IsNull() || bare.LengthInt() == 0 {
		return v, nil
	}
	kept := map[string]cty.Value{}
	for it := bare.ElementIterator(); it.Next(); {
		k, e := it.Element()
		if plain, _ := e.Unmark(); !plain.IsNull() {
			kept[k.AsString()] = e
		}
	}
	if len(kept) == 0 {
		return cty.MapValEmpty(bare.Type().ElementType()).WithMarks(marks), nil
	}
	return cty.MapVal(kept).WithMarks(marks), nil
}

// Exit implements cty.Transformer.
func (n nullDropper) Exit(path cty.Path, v cty.Value) (cty.Value, error) {
	bare, _ := v.Unmark()
	if ty := bare.Type(); (ty.IsListType() || ty.IsSetType()) && !bare.IsNull() {
		for i, e := range elements(bare) {
			if plain, _ := e.Unmark(); plain.IsNull() {
				n.d.fail(walk(n.at.Expr, append(fromCty(path), i), n.d.ctx).Range(), "Invalid value", "An element of %q is null; leave it out.", n.at.Name)
			}
		}
	}
	return v, nil
}

// unreplaced reports secret texts that still contain a shell's reference: it
// would be sent as it is, as a token that is none. Some plugins refuse it where
// a warning is all that the host can say; theirs replaces it then, being at the
// same place.
func (d *decoder) unreplaced(o *origin, at *hcl.Attribute, a attribute, v cty.Value) {
	bare, marks := v.UnmarkDeepWithPaths()
	_ = cty.Walk(bare, func(path cty.Path, v cty.Value) (bool, error) {
		if v.Type() != cty.String || v.IsNull() || !v.IsKnown() || !literalReference.MatchString(v.AsString()) {
			return true, nil
		}
		marked := slices.ContainsFunc(marks, func(m cty.PathValueMarks) bool { return path.HasPrefix(m.Path) })
		if !marked && !a.sensitive {
			return true, nil
		}
		g := &hcl.Diagnostic{
			Severity: hcl.DiagWarning, Summary: "Reference not replaced",
			Detail:  "This text contains a reference like ${NAME}, which nothing will replace: $${ writes the characters themselves. For the environment variable write ${env(\"NAME\")}.",
			Subject: o.locate(append([]any{at.Name}, fromCty(path)...)).Ptr(),
		}
		if marked {
			g.Severity = hcl.DiagError
			g.Detail = "This value contains a reference like ${NAME}, which nothing will replace. It came so from the environment, a file or a variable: put the value itself there."
		}
		d.add(g)
		return true, nil
	})
}
