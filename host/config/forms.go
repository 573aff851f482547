package config

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A secret comes back in other forms than it was given in: within a URL, within
// JSON, as a part of what was encoded as a whole, line by line, or cut off. This
// file knows the forms.

const (
	encodedSecret = 8  // the shortest text of which encoded forms are looked for
	secretLine    = 16 // the shortest line of a secret that is looked for by itself
	secretLines   = 1000
	secretPiece   = 4 // the shortest piece of a secret that is recognised where a text was cut
)

// forms returns the texts that betray a secret.
func forms(text string) []string {
	all := []string{text, strings.TrimSpace(text)}
	all = append(all, inner(strconv.Quote(text)), inner(strconv.QuoteToASCII(text)))
	if plain, err := json.Marshal(text); err == nil { // with <, > and & escaped
		all = append(all, inner(string(plain)))
	}
	all = append(all, credentials(text)...)
	if len(text) >= encodedSecret {
		query, path := url.QueryEscape(text), url.PathEscape(text)
		all = append(all, query, path, url.UserPassword("", text).String()[1:])
		all = append(all, lowerEscapes(query), lowerEscapes(path))
		all = append(all, base64Cores(text)...)
	}
	return append(all, lines(text)...)
}

func inner(quoted string) string { return quoted[1 : len(quoted)-1] }

// credentials returns what is secret in the value of an Authorization header
// (RFC 9110, section 11.4): what follows the scheme, and for Basic (RFC 7617)
// the password in it.
func credentials(text string) []string {
	scheme, rest, ok := strings.Cut(strings.TrimSpace(text), " ")
	if !ok || strings.ContainsAny(rest, " \t\n") || unexpanded.MatchString(rest) {
		return nil
	}
	switch strings.ToLower(scheme) {
	case "basic":
		pair, err := base64.StdEncoding.DecodeString(rest)
		if _, password, ok := strings.Cut(string(pair), ":"); err == nil && ok {
			return []string{rest, string(pair), password}
		}
		return []string{rest}
	case "bearer", "token", "apikey", "api-key", "key":
		return []string{rest}
	}
	return nil
}

// base64Cores returns what the base64 of any text has in it that contains this
// one: the digits that depend on this text alone, for each of the three places
// in a group of three bytes where it can begin.
func base64Cores(text string) (cores []string) {
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			digits := encoding.EncodeToString(append(make([]byte, before), text...))
			core := digits[(before*8+5)/6 : (before+len(text))*8/6]
			if len(core) >= encodedSecret {
				cores = append(cores, core)
			}
		}
	}
	return cores
}

// lowerEscapes writes the digits of percent-encodings in lower case, as some do.
func lowerEscapes(text string) string {
	out := []byte(text)
	for i := 0; i+2 < len(out); i++ {
		if out[i] == '%' {
			copy(out[i+1:i+3], strings.ToLower(text[i+1:i+3]))
		}
	}
	return string(out)
}

// lines returns the lines of a text that are no prose, such as those of a key:
// programs print line by line.
func lines(text string) (all []string) {
	if !strings.Contains(text, "\n") {
		return nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if len(line) >= secretLine && !strings.ContainsAny(line, " \t") && len(all) < secretLines {
			all = append(all, line)
		}
	}
	return all
}

// cut stands where a text was cut off, and where a piece of one begins.
const cut = "…"

// hidePieces hides what a cut has left of secrets: their beginnings before the
// mark of a cut, and their ends after it.
func hidePieces(text string, secrets []string) string {
	parts := strings.Split(text, cut)
	for i, part := range parts {
		if i+1 < len(parts) {
			n := longest(part, secrets, func(s string, n int) bool { return strings.HasSuffix(part, s[:n]) })
			if n > 0 {
				part = part[:len(part)-n] + hidden
			}
		}
		if i > 0 {
			n := longest(part, secrets, func(s string, n int) bool { return strings.HasPrefix(part, s[len(s)-n:]) })
			if n > 0 {
				part = hidden + part[n:]
			}
		}
		parts[i] = part
	}
	return strings.Join(parts, cut)
}

// longest returns the length of the longest piece of a secret that fits, 0 if
// none does.
func longest(part string, secrets []string, fits func(secret string, n int) bool) (best int) {
	for _, s := range secrets {
		for n := min(len(s)-1, len(part)); n >= max(secretPiece, best+1); n-- {
			if fits(s, n) {
				best = n
			}
		}
	}
	return best
}

// distinctForms sorts out what is too short or too long to look for.
func distinctForms(text string) []string {
	all := slices.DeleteFunc(forms(text), func(t string) bool { return len(t) < shortSecret || len(t) > hugeSecret })
	slices.Sort(all)
	return slices.Compact(all)
}
