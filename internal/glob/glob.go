// Package glob matches names and URIs against the patterns of the
// configuration.
//
// They look like those of a shell, but know no path: * matches any text and ?
// any character, a slash included, since a pattern such as file:///home/* is
// meant for all that is below. [a-z] matches one character of a set and [^a-z]
// one that is not in it; a backslash takes the next character as it is.
package glob

import (
	"errors"
	"regexp"
	"strings"
)

var errMalformed = errors.New("the pattern is malformed: a [ needs a ] with characters between, and a backslash a character after it")

// Compile returns what matches exactly the texts that the pattern matches, in
// time linear to the text.
func Compile(pattern string) (*regexp.Regexp, error) {
	var out strings.Builder
	out.WriteString(`(?s)\A`)
	for rest := []rune(pattern); len(rest) > 0; {
		c := rest[0]
		rest = rest[1:]
		switch c {
		case '*':
			out.WriteString(`.*`)
		case '?':
			out.WriteByte('.')
		case '\\':
			if len(rest) == 0 {
				return nil, errMalformed
			}
			out.WriteString(regexp.QuoteMeta(string(rest[0])))
			rest = rest[1:]
		case '[':
			n, err := class(&out, rest)
			if err != nil {
				return nil, err
			}
			rest = rest[n:]
		default:
			out.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	out.WriteString(`\z`)
	re, err := regexp.Compile(out.String())
	if err != nil {
		return nil, errMalformed // a range that runs backwards, or too much of it
	}
	return re, nil
}

// class writes the set that begins after a [, and returns its length with the ].
func class(out *strings.Builder, in []rune) (int, error) {
	i := 0
	out.WriteByte('[')
	if i < len(in) && in[i] == '^' {
		out.WriteByte('^')
		i++
	}
	for first := true; i < len(in); first = false {
		c := in[i]
		i++
		switch {
		case c == ']' && first:
			return 0, errMalformed
		case c == ']':
			out.WriteByte(']')
			return i, nil
		case c == '\\':
			if i == len(in) {
				return 0, errMalformed
			}
			member(out, in[i])
			i++
		case c == '-' && !first && i < len(in) && in[i] != ']':
			out.WriteByte('-')
		default:
			member(out, c)
		}
	}
	return 0, errMalformed
}

// member writes one character of a set so that it stands for itself.
func member(out *strings.Builder, c rune) {
	if strings.ContainsRune(`\]-[^&~`, c) {
		out.WriteByte('\\')
	}
	out.WriteRune(c)
}
