package config

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// source is the file as diagnostics show it: its text with secrets blanked,
// and where the variables came from.
type source struct {
	name    string
	mu      sync.Mutex
	text    []byte // a copy, blanked by hide; guarded by mu
	nav     any    // hcl.File.Nav
	vars    map[string]variable
	secrets *secrets
}

// line returns the source line where a range starts, cut at the range. It
// returns false if the range is not in this file.
func (s *source) line(at hcl.Range) (before, part, after string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.name != at.Filename || at.Start.Byte > len(s.text) || at.End.Byte < at.Start.Byte {
		return "", "", "", false
	}
	start := bytes.LastIndexByte(s.text[:at.Start.Byte], '\n') + 1
	end := len(s.text)
	if i := bytes.IndexByte(s.text[at.Start.Byte:], '\n'); i >= 0 {
		end = at.Start.Byte + i
	}
	cut := func(from, to int) string { return strings.ToValidUTF8(string(s.text[from:to]), "?") }
	stop := min(max(at.End.Byte, at.Start.Byte), end)
	before, part, after = cut(start, at.Start.Byte), cut(at.Start.Byte, stop), cut(stop, end)
	return before, strings.TrimRight(part, "\r"), strings.TrimRight(after, " \t\r"), true
}

// context names the block that a range is in.
func (s *source) context(at hcl.Range) string {
	if nav, ok := s.nav.(interface{ ContextString(offset int) string }); ok && s.name == at.Filename {
		if c := nav.ContextString(at.Start.Byte); c != "" {
			return ", in " + c
		}
	}
	return ""
}

// origins says where the variables of a diagnostic's expression came from,
// if not from the file. It never says their values.
func (s *source) origins(g *hcl.Diagnostic) []string {
	if g.Expression == nil {
		return nil
	}
	var out []string
	seen := map[string]bool{}
	for _, t := range g.Expression.Variables() {
		if t.RootName() != "var" || len(t) < 2 {
			continue
		}
		name, ok := stepName(t[1])
		if v := s.vars[name]; ok && v.origin != "" && !seen[name] {
			seen[name] = true
			out = append(out, fmt.Sprintf("var.%s was set by %s.", name, v.origin))
		}
	}
	return out
}

// hide blanks the literal strings of an expression that is secret, so that no
// source line shows them. Names of environment variables and files, keys, and
// what a template computes stay readable.
func (s *source) hide(expr hcl.Expression) {
	if e, ok := expr.(hclsyntax.Expression); ok {
		hclsyntax.Walk(e, &blanker{s: s})
		return
	}
	// JSON: take maps and lists apart, and blank what is left.
	if pairs, diags := hcl.ExprMap(expr); !diags.HasErrors() {
		for _, p := range pairs {
			s.hide(p.Value)
		}
		return
	}
	if list, diags := hcl.ExprList(expr); !diags.HasErrors() {
		for _, e := range list {
			s.hide(e)
		}
		return
	}
	s.blankTemplate(expr.Range())
}

// blank replaces a range of the text with as many asterisks.
func (s *source) blank(at hcl.Range) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.name != at.Filename || at.End.Byte > len(s.text) {
		return
	}
	for i := at.Start.Byte; i < at.End.Byte; i++ {
		if c := s.text[i]; c != '\n' && c != '\r' {
			s.text[i] = '*'
		}
	}
}

// blankTemplate blanks a JSON string but for its quotes and its ${…} parts.
func (s *source) blankTemplate(at hcl.Range) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.name != at.Filename || at.End.Byte > len(s.text) {
		return
	}
	depth := 0
	for i := at.Start.Byte; i < at.End.Byte; i++ {
		switch c := s.text[i]; {
		case depth == 0 && c == '$' && i+1 < at.End.Byte && s.text[i+1] == '{' && s.text[i-1] != '$':
			depth = 1
			i++
		case depth > 0 && c == '{':
			depth++
		case depth > 0 && c == '}':
			depth--
		case depth == 0 && c != '"' && c != '\n':
			s.text[i] = '*'
		}
	}
}

// A blanker walks native syntax and blanks the literals of values.
type blanker struct {
	s    *source
	keep []hcl.Range // names, which are no values
}

// Enter implements hclsyntax.Walker.
func (b *blanker) Enter(node hclsyntax.Node) hcl.Diagnostics {
	switch n := node.(type) {
	case *hclsyntax.ObjectConsKeyExpr:
		b.keep = append(b.keep, n.Range())
	case *hclsyntax.FunctionCallExpr:
		if (n.Name == "env" || n.Name == "file") && len(n.Args) > 0 {
			b.keep = append(b.keep, n.Args[0].Range())
		}
	case *hclsyntax.LiteralValueExpr:
		if !slices.ContainsFunc(b.keep, func(r hcl.Range) bool { return r.ContainsPos(n.SrcRange.Start) }) {
			b.s.blank(n.SrcRange)
		}
	}
	return nil
}

// Exit implements hclsyntax.Walker.
func (b *blanker) Exit(hclsyntax.Node) hcl.Diagnostics { return nil }

// hideMarked blanks what is written as an argument of sensitive().
func (s *source) hideMarked(body hcl.Body) {
	if b, ok := body.(*hclsyntax.Body); ok {
		_ = hclsyntax.VisitAll(b, func(node hclsyntax.Node) hcl.Diagnostics {
			if call, ok := node.(*hclsyntax.FunctionCallExpr); ok && call.Name == "sensitive" {
				for _, arg := range call.Args {
					s.hide(arg)
				}
			}
			return nil
		})
	}
}
