package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// maxRounds bounds how often the body of a for expression is evaluated, those
// that it is nested in taken together.
const maxRounds = 1 << 20

// turns reports whether the for expressions in an expression come to an end in
// reasonable time and memory, and says so if not. Three of them over a list of
// two thousand elements, one within the other, do not.
func (d *decoder) turns(expr hcl.Expression) bool {
	node, ok := expr.(hclsyntax.Expression)
	if !ok {
		return true
	}
	w := &turner{d: d}
	_ = hclsyntax.Walk(node, w)
	return !w.failed
}

// A turner follows the for expressions of an expression downwards.
type turner struct {
	d      *decoder
	rounds []int // of the for expressions around, each with those around it
	failed bool
}

// Enter implements [hclsyntax.Walker].
func (w *turner) Enter(n hclsyntax.Node) hcl.Diagnostics {
	f, ok := n.(*hclsyntax.ForExpr)
	if !ok {
		return nil
	}
	rounds := 1
	if len(w.rounds) > 0 {
		rounds = w.rounds[len(w.rounds)-1]
	}
	if !w.failed {
		rounds *= max(1, w.d.referred(f.CollExpr)/8) // at least so many bytes has an element
		body := w.d.referred(f.ValExpr)
		if f.KeyExpr != nil {
			body += w.d.referred(f.KeyExpr)
		}
		if rounds > maxRounds || body > 16*maxReferred/rounds {
			w.failed = true
			w.d.fail(f.SrcRange, "Value too large", "This for expression, with those around it, would be evaluated too often or make too much: what it goes through and what it refers to have to be smaller.")
		}
	}
	w.rounds = append(w.rounds, min(rounds, maxRounds))
	return nil
}

// Exit implements [hclsyntax.Walker].
func (w *turner) Exit(n hclsyntax.Node) hcl.Diagnostics {
	if _, ok := n.(*hclsyntax.ForExpr); ok {
		w.rounds = w.rounds[:len(w.rounds)-1]
	}
	return nil
}

// referred returns the bytes of the values in scope that an expression refers
// to. What a for expression around it goes through is counted there.
func (d *decoder) referred(expr hclsyntax.Expression) (n int) {
	for _, t := range expr.Variables() {
		if _, known := d.scope[t.RootName()]; !known {
			continue
		}
		if v, diags := t.TraverseAbs(d.ctx); !diags.HasErrors() {
			n += weigh(v)
		}
	}
	return n
}
