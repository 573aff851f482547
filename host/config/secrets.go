package config

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
)

// Secrets are values from env(), file() and sensitive(), of sensitive
// variables, and of attributes that a plugin calls sensitive. Two things keep
// them out of sight. Values carry the mark [secret] through evaluation, and
// nothing prints a marked value. And the texts themselves are remembered, so
// that messages written by others (HCL's functions, plugins) can be cleaned.

// mark is the type of our cty marks.
type mark string

// secret marks values that are never shown.
const secret mark = "secret"

// hidden stands for a secret in texts.
const hidden = "(sensitive)"

// Shorter secrets are not looked for: they would be found everywhere, and a
// text that short keeps no secret. Those below longSecret must stand alone.
const (
	shortSecret = 3
	longSecret  = 6
	hugeSecret  = 64 << 10
)

// secrets remembers secret texts. The zero value is empty; nil works and
// knows none. It may be used concurrently.
type secrets struct {
	mu    sync.Mutex
	texts map[string]bool
	whole []string          // those of at least longSecret
	long  *strings.Replacer // nil: both are to be built
	short *regexp.Regexp    // nil: none
}

// add remembers a text, in all its forms.
func (s *secrets) add(text string) {
	s.mu.Lock()
	known := s.texts[text]
	s.mu.Unlock()
	if known {
		return
	}
	all := distinctForms(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range all {
		if s.texts[t] || !utf8.ValidString(t) {
			continue
		}
		if s.texts == nil {
			s.texts = map[string]bool{}
		}
		s.texts[t] = true
		s.long = nil
	}
}

// addLeaves remembers all strings in a value.
func (s *secrets) addLeaves(v cty.Value) {
	v, _ = v.UnmarkDeep()
	_ = cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) {
		if v.Type() == cty.String && v.IsKnown() && !v.IsNull() {
			s.add(v.AsString())
		}
		return true, nil
	})
}

// redact replaces every secret in the text.
func (s *secrets) redact(text string) string {
	if s == nil || text == "" {
		return text
	}
	s.mu.Lock()
	if s.long == nil {
		s.compile()
	}
	long, short, whole := s.long, s.short, s.whole
	s.mu.Unlock()
	text = long.Replace(text)
	if strings.Contains(text, cut) {
		text = hidePieces(text, whole)
	}
	if short != nil {
		text = short.ReplaceAllString(text, hidden)
	}
	return text
}

// compile builds long and short, longer texts first so that a secret that
// contains another is replaced whole. s.mu is held.
func (s *secrets) compile() {
	texts := slices.SortedFunc(maps.Keys(s.texts), func(a, b string) int {
		return cmp.Or(len(b)-len(a), strings.Compare(a, b))
	})
	var pairs, whole, words []string
	for _, t := range texts {
		if len(t) >= longSecret {
			pairs = append(pairs, t, hidden)
			whole = append(whole, t)
		} else {
			words = append(words, edge(t[0])+regexp.QuoteMeta(t)+edge(t[len(t)-1]))
		}
	}
	s.long, s.short, s.whole = strings.NewReplacer(pairs...), nil, whole
	if len(words) > 0 {
		s.short = regexp.MustCompile(strings.Join(words, "|"))
	}
}

// edge returns the pattern that keeps a short secret from matching inside a
// word that goes on beyond the byte b.
func edge(b byte) string {
	if b == '_' || '0' <= b && b <= '9' || 'A' <= b && b <= 'Z' || 'a' <= b && b <= 'z' {
		return `\b`
	}
	return ""
}
