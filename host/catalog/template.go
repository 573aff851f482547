package catalog

import (
	"regexp"
	"strings"
)

// template matches URIs against a URI template (RFC 6570). It is used to find
// the server that a URI belongs to, which then decides for itself; so it errs
// towards matching: variables are not told apart, nor modifiers heeded.
//
// Matchers that follow the RFC to the letter (such as uritemplate, which the
// Go SDK uses) don't do for that: they refuse what an expansion would have
// encoded, such as the colon in db://a:b for db://{table} or the space in
// file:///a b.txt, and servers of other SDKs take those URIs.
type template struct {
	re *regexp.Regexp
}

// maxTemplate bounds the length of templates that are matched.
const maxTemplate = 4096

// What an expression can expand to, by its operator (RFC 6570, section 3.2).
var expansions = map[byte]string{
	0:   `[^/?#]*`,
	'+': `.*`,
	'#': `(?:#.*)?`,
	'.': `(?:\.[^/?#]*)?`,
	'/': `(?:/[^?#]*)?`,
	';': `(?:;[^/?#]*)?`,
	'?': `(?:\?[^#]*)?`,
	'&': `(?:&[^#]*)?`,
}

// parseTemplate returns nil for text that is no template; such an entry is
// listed all the same, but nothing matches it.
func parseTemplate(text string) *template {
	if len(text) > maxTemplate {
		return nil
	}
	var re strings.Builder
	re.WriteString(`(?s)\A`)
	for rest := text; rest != ""; {
		open := strings.IndexByte(rest, '{')
		if open < 0 {
			re.WriteString(regexp.QuoteMeta(rest))
			break
		}
		re.WriteString(regexp.QuoteMeta(rest[:open]))
		inner, after, ok := strings.Cut(rest[open+1:], "}")
		if !ok || inner == "" {
			return nil
		}
		op := inner[0]
		if expansions[op] == "" {
			op = 0
		}
		re.WriteString(expansions[op])
		rest = after
	}
	re.WriteString(`\z`)
	compiled, err := regexp.Compile(re.String())
	if err != nil {
		return nil
	}
	return &template{re: compiled}
}

func (t *template) matches(uri string) bool { return t != nil && t.re.MatchString(uri) }
