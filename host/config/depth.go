package config

import (
	"bytes"
	"encoding/json"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// HCL's parser is recursive and unbounded: some hundred thousand brackets
// overflow the stack, which ends the process, and a running host reads its
// file again. The lexer is not recursive, so the tokens are looked at first.
const (
	maxNesting = 100 // brackets, blocks and templates within each other
	maxChain   = 500 // operators in a row, which nest without brackets
)

// checkDepth reports a native text that nests too deeply.
func checkDepth(text []byte, path string) hcl.Diagnostics {
	tokens, _ := hclsyntax.LexConfig(text, path, hcl.InitialPos) // the parser reports what is wrong
	return nesting(tokens)
}

func nesting(tokens hclsyntax.Tokens) hcl.Diagnostics {
	type level struct {
		open  hclsyntax.TokenType
		chain int
	}
	levels := []level{{open: hclsyntax.TokenOBrace}}
	for _, t := range tokens {
		top := &levels[len(levels)-1]
		switch t.Type {
		case hclsyntax.TokenOBrack:
			top.chain++ // an index
			levels = append(levels, level{open: t.Type})
		case hclsyntax.TokenOBrace, hclsyntax.TokenOParen, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc,
			hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			levels = append(levels, level{open: t.Type})
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc,
			hclsyntax.TokenTemplateSeqEnd:
			if len(levels) > 1 {
				levels = levels[:len(levels)-1]
			}
		case hclsyntax.TokenComma:
			top.chain = 0
		case hclsyntax.TokenNewline:
			if top.open == hclsyntax.TokenOBrace {
				top.chain = 0
			}
		case hclsyntax.TokenBang, hclsyntax.TokenMinus, hclsyntax.TokenPlus, hclsyntax.TokenStar, hclsyntax.TokenSlash,
			hclsyntax.TokenPercent, hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenQuestion, hclsyntax.TokenColon,
			hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq,
			hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq, hclsyntax.TokenDot:
			top.chain++
		}
		if len(levels) > maxNesting || levels[len(levels)-1].chain > maxChain {
			return tooDeep(t.Range)
		}
	}
	return nil
}

// checkJSONDepth is checkDepth for JSON, whose texts are templates.
func checkJSONDepth(text []byte, path string) hcl.Diagnostics {
	at := func(offset int64) hcl.Range {
		before := text[:min(offset, int64(len(text)))]
		line := bytes.Count(before, []byte("\n")) + 1
		pos := hcl.Pos{Line: line, Column: len(before) - bytes.LastIndexByte(before, '\n'), Byte: len(before)}
		return hcl.Range{Filename: path, Start: pos, End: pos}
	}
	depth := 0
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return nil // the end, or what the parser reports
		}
		switch t := token.(type) {
		case json.Delim:
			if t == '{' || t == '[' {
				depth++
			} else {
				depth--
			}
			if depth > maxNesting {
				return tooDeep(at(d.InputOffset() - 1))
			}
		case string:
			tokens, _ := hclsyntax.LexTemplate([]byte(t), path, hcl.InitialPos)
			if diags := nesting(tokens); diags.HasErrors() {
				return tooDeep(at(d.InputOffset() - 1))
			}
		}
	}
}

func tooDeep(at hcl.Range) hcl.Diagnostics {
	return hcl.Diagnostics{{
		Severity: hcl.DiagError, Summary: "Nested too deeply",
		Detail:  "Nobody means to write so many brackets or operators within each other. Is this the right file?",
		Subject: &at,
	}}
}
