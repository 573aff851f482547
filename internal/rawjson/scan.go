// Package rawjson reads and edits JSON text without decoding it.
//
// A relay must hand on what it got: integers beyond 2^53, unknown members, key
// order and number spellings all survive here, since values stay the bytes
// that they were. Scanning validates (RFC 8259), so a value that this package
// returned can be embedded in other JSON.
//
// All functions are pure; results alias their input unless they say otherwise.
package rawjson

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// MaxDepth bounds the nesting of arrays and objects, as encoding/json does.
const MaxDepth = 10000

// ErrSyntax is wrapped by every error about text that is not JSON.
var ErrSyntax = errors.New("invalid JSON")

func syntax(at int, what string) error {
	return fmt.Errorf("%w at byte %d: %s", ErrSyntax, at, what)
}

// Check returns nil if data is exactly one JSON value, white space aside.
func Check(data []byte) error {
	i := space(data, 0)
	i, err := value(data, i, 0)
	if err != nil {
		return err
	}
	if i = space(data, i); i != len(data) {
		return syntax(i, "text after the value")
	}
	return nil
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// value scans the value that begins at b[i] and returns the index after it.
func value(b []byte, i, depth int) (int, error) {
	if i >= len(b) {
		return i, syntax(i, "unexpected end")
	}
	switch c := b[i]; {
	case c == '"':
		return str(b, i)
	case c == '{':
		return members(b, i, depth, nil)
	case c == '[':
		return elements(b, i, depth, nil)
	case c == '-' || '0' <= c && c <= '9':
		return number(b, i)
	case c == 't':
		return literal(b, i, "true")
	case c == 'f':
		return literal(b, i, "false")
	case c == 'n':
		return literal(b, i, "null")
	}
	return i, syntax(i, fmt.Sprintf("unexpected %q", b[i]))
}

func literal(b []byte, i int, want string) (int, error) {
	if len(b)-i < len(want) || string(b[i:i+len(want)]) != want {
		return i, syntax(i, "unexpected literal")
	}
	return i + len(want), nil
}

func number(b []byte, i int) (int, error) {
	digits := func() bool {
		from := i
		for i < len(b) && '0' <= b[i] && b[i] <= '9' {
			i++
		}
		return i > from
	}
	start := i
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if !digits() {
		return i, syntax(start, "malformed number")
	}
	if i < len(b) && b[i] == '.' {
		i++
		if !digits() {
			return i, syntax(start, "malformed number")
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if !digits() {
			return i, syntax(start, "malformed number")
		}
	}
	return i, nil
}

const (
	lows  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plain reports whether none of the eight bytes of w ends a run of ordinary
// string bytes: a quote, a backslash or a control character. It may err
// towards false, never towards true.
func plain(w uint64) bool {
	quote := w ^ (lows * '"')
	slash := w ^ (lows * '\\')
	return ((w-lows*0x20)&^w|(quote-lows)&^quote|(slash-lows)&^slash)&highs == 0
}

// str scans the string whose opening quote is b[i]. Text is most of what large
// payloads consist of, hence the eight bytes at a time.
func str(b []byte, i int) (int, error) {
	start := i
	for i++; ; {
		for len(b)-i >= 8 && plain(binary.LittleEndian.Uint64(b[i:])) {
			i += 8
		}
		if i >= len(b) {
			return i, syntax(start, "unterminated string")
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, nil
		case c < 0x20:
			return i, syntax(i, "control character in a string")
		case c != '\\':
			i++
		default:
			n, err := escape(b, i)
			if err != nil {
				return i, err
			}
			i = n
		}
	}
}

func escape(b []byte, i int) (int, error) {
	if i+1 >= len(b) {
		return i, syntax(i, "unterminated escape")
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2, nil
	case 'u':
		if len(b)-i < 6 {
			return i, syntax(i, "unterminated escape")
		}
		for _, c := range b[i+2 : i+6] {
			if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
				return i, syntax(i, "malformed \\u escape")
			}
		}
		return i + 6, nil
	}
	return i, syntax(i, "unknown escape")
}

// span is a part of the scanned text.
type span struct{ from, to int }

// members scans the object that begins at b[i]. Visit, if not nil, is told of
// each member: its quoted key and its value. When it returns false, the scan
// goes on without it, so that the whole text is validated.
func members(b []byte, i, depth int, visit func(key, val span) bool) (int, error) {
	if depth >= MaxDepth {
		return i, syntax(i, "nested too deeply")
	}
	i = space(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return i, syntax(i, "expected a member name")
		}
		key := span{from: i}
		n, err := str(b, i)
		if err != nil {
			return i, err
		}
		key.to = n
		if i = space(b, n); i >= len(b) || b[i] != ':' {
			return i, syntax(i, "expected a colon")
		}
		i = space(b, i+1)
		val := span{from: i}
		if val.to, err = value(b, i, depth+1); err != nil {
			return i, err
		}
		if visit != nil && !visit(key, val) {
			visit = nil
		}
		i = space(b, val.to)
		switch {
		case i < len(b) && b[i] == ',':
			i = space(b, i+1)
		case i < len(b) && b[i] == '}':
			return i + 1, nil
		default:
			return i, syntax(i, "expected a comma or the end of an object")
		}
	}
}

// elements scans the array that begins at b[i], as members does an object.
func elements(b []byte, i, depth int, visit func(val span)) (int, error) {
	if depth >= MaxDepth {
		return i, syntax(i, "nested too deeply")
	}
	i = space(b, i+1)
	if i < len(b) && b[i] == ']' {
		return i + 1, nil
	}
	for {
		val := span{from: i}
		var err error
		if val.to, err = value(b, i, depth+1); err != nil {
			return i, err
		}
		if visit != nil {
			visit(val)
		}
		i = space(b, val.to)
		switch {
		case i < len(b) && b[i] == ',':
			i = space(b, i+1)
		case i < len(b) && b[i] == ']':
			return i + 1, nil
		default:
			return i, syntax(i, "expected a comma or the end of an array")
		}
	}
}

// Depth returns how deeply arrays and objects are nested in valid JSON: 0 for a
// number, 1 for [1].
func Depth(b []byte) (deepest int) {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			n, err := str(b, i)
			if err != nil {
				return deepest
			}
			i = n - 1
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}

// is reports whether the quoted key k spells name.
func is(k []byte, name string) bool {
	inner := k[1 : len(k)-1]
	if string(inner) == name {
		return true
	}
	for _, c := range inner {
		if c == '\\' {
			return Unquote(k) == name
		}
	}
	return false
}

// Unquote returns the text of a JSON string. It returns "" for any other
// value.
func Unquote(s []byte) string {
	if len(s) < 2 || s[0] != '"' {
		return ""
	}
	inner := s[1 : len(s)-1]
	simple := utf8.Valid(inner)
	for _, c := range inner {
		if c == '\\' {
			simple = false
			break
		}
	}
	if simple {
		return string(inner)
	}
	var text string
	if json.Unmarshal(s, &text) != nil {
		return ""
	}
	return text
}

// Quote returns text as a JSON string.
func Quote(text string) json.RawMessage {
	out, err := json.Marshal(text)
	if err != nil { // a string always encodes
		panic(err)
	}
	return out
}
