package config

import (
	"encoding/json"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// minLiteral is the least length of a text in a sensitive attribute that is
// looked for in messages although nothing else says that it is secret: among
// environment variables and headers there are many plain words.
const minLiteral = 8

// rememberLiterals notes the texts in the value of a sensitive attribute.
func (s *secrets) rememberLiterals(v cty.Value) {
	_ = cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) {
		if v.Type() == cty.String && v.IsKnown() && !v.IsNull() && len(v.AsString()) >= minLiteral {
			s.add(v.AsString())
		}
		return true, nil
	})
}

// rememberMarked notes the texts in a value that have the mark, themselves or
// through what they are in.
func (s *secrets) rememberMarked(v cty.Value) {
	bare, marks := v.UnmarkDeepWithPaths()
	if len(marks) == 0 {
		return
	}
	_ = cty.Walk(bare, func(path cty.Path, v cty.Value) (bool, error) {
		if v.Type() == cty.String && v.IsKnown() && !v.IsNull() &&
			slices.ContainsFunc(marks, func(m cty.PathValueMarks) bool { return path.HasPrefix(m.Path) }) {
			s.add(v.AsString())
		}
		return true, nil
	})
}

// rememberParts notes the secret parts of templates: the base64 of a password
// is as secret as "Basic " and the base64.
func (s *secrets) rememberParts(expr hcl.Expression, ctx *hcl.EvalContext) {
	e, ok := expr.(hclsyntax.Expression)
	if !ok {
		return
	}
	_ = hclsyntax.VisitAll(e, func(n hclsyntax.Node) hcl.Diagnostics {
		if t, ok := n.(*hclsyntax.TemplateExpr); ok {
			for _, part := range t.Parts {
				if v, diags := part.Value(ctx); !diags.HasErrors() {
					s.rememberMarked(v)
				}
			}
		}
		return nil
	})
}

// visible returns a value as what encoding/json writes for people: secret
// leaves are replaced, keys and structure stay.
func visible(v cty.Value, isSecret bool) any {
	if v.IsMarked() {
		v, _ = v.Unmark()
		isSecret = true
	}
	if v.IsNull() {
		return nil
	}
	ty := v.Type()
	switch {
	case ty.IsObjectType() || ty.IsMapType():
		out := map[string]any{}
		for it := v.ElementIterator(); it.Next(); {
			k, e := it.Element()
			out[k.AsString()] = visible(e, isSecret)
		}
		return out
	case ty.IsTupleType() || ty.IsListType() || ty.IsSetType():
		out := []any{}
		for it := v.ElementIterator(); it.Next(); {
			_, e := it.Element()
			out = append(out, visible(e, isSecret))
		}
		return out
	case isSecret:
		return hidden
	}
	raw, err := ctyjson.Marshal(v, ty)
	if err != nil {
		return hidden
	}
	return json.RawMessage(raw)
}
