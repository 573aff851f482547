package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// Paths lead from a transport block, or from one attribute's value, to a value
// inside. They are slices of strings (attributes and keys) and ints (indexes),
// as in session.End.

// fromCty turns a path of cty into ours.
func fromCty(p cty.Path) []any {
	var out []any
	for _, step := range p {
		switch s := step.(type) {
		case cty.GetAttrStep:
			out = append(out, s.Name)
		case cty.IndexStep:
			key, _ := s.Key.Unmark()
			switch {
			case key.IsNull() || !key.IsKnown():
				return out
			case key.Type() == cty.String:
				out = append(out, key.AsString())
			case key.Type() == cty.Number:
				i, _ := key.AsBigFloat().Int64()
				out = append(out, int(i))
			default:
				return out
			}
		}
	}
	return out
}

// fromProto turns a path of the plugin contract into ours.
func fromProto(p []*transportpb.PathStep) []any {
	var out []any
	for _, step := range p {
		switch s := step.GetStep().(type) {
		case *transportpb.PathStep_Attribute:
			out = append(out, s.Attribute)
		case *transportpb.PathStep_Key:
			out = append(out, s.Key)
		case *transportpb.PathStep_Index:
			out = append(out, int(s.Index))
		default:
			return out
		}
	}
	return out
}

// stepName returns the name that a step of a traversal selects, if it is
// written out.
func stepName(step hcl.Traverser) (string, bool) {
	switch s := step.(type) {
	case hcl.TraverseAttr:
		return s.Name, true
	case hcl.TraverseIndex:
		key, _ := s.Key.Unmark()
		if key.Type() == cty.String && key.IsKnown() && !key.IsNull() {
			return key.AsString(), true
		}
	}
	return "", false
}

// A pathfinder finds the expressions behind paths.
type pathfinder struct {
	ctx    *hcl.EvalContext
	locals map[string]*hcl.Attribute // to follow local.NAME; may be nil
}

// walk follows a path into list and map literals as far as they go.
func walk(expr hcl.Expression, path []any, ctx *hcl.EvalContext) hcl.Expression {
	return pathfinder{ctx: ctx}.walk(expr, path)
}

// walk follows a path into list and map literals, and through references to
// local values, as far as they go.
func (f pathfinder) walk(expr hcl.Expression, path []any) hcl.Expression {
	const maxHops = 8 // references that lead to references
	for hops := 0; len(path) > 0; {
		if next, ok := f.step(expr, path[0]); ok {
			expr, path = next, path[1:]
			continue
		}
		def, ok := f.follow(expr)
		if hops++; !ok || hops > maxHops {
			break
		}
		// Go there only if it gets us nearer.
		if _, ok := f.step(def, path[0]); !ok {
			if _, ok := f.follow(def); !ok {
				break
			}
		}
		expr = def
	}
	return expr
}

// step takes one step into a literal.
func (f pathfinder) step(expr hcl.Expression, step any) (hcl.Expression, bool) {
	switch s := step.(type) {
	case int:
		list, diags := hcl.ExprList(expr)
		if !diags.HasErrors() && s >= 0 && s < len(list) {
			return list[s], true
		}
	case string:
		entries, diags := hcl.ExprMap(expr)
		if diags.HasErrors() {
			return nil, false
		}
		// The last of equal keys wins, as in HCL.
		for i := len(entries) - 1; i >= 0; i-- {
			if key, diags := entries[i].Key.Value(f.ctx); !diags.HasErrors() {
				key, _ = key.Unmark()
				if key.Type() == cty.String && key.IsKnown() && !key.IsNull() && key.AsString() == s {
					return entries[i].Value, true
				}
			}
		}
	}
	return nil, false
}

// follow returns the definition behind an expression that is just local.NAME.
func (f pathfinder) follow(expr hcl.Expression) (hcl.Expression, bool) {
	ref, ok := expr.(*hclsyntax.ScopeTraversalExpr)
	if !ok || len(ref.Traversal) != 2 || ref.Traversal.RootName() != "local" {
		return nil, false
	}
	name, _ := stepName(ref.Traversal[1])
	def, ok := f.locals[name]
	if !ok {
		return nil, false
	}
	return def.Expr, true
}
