package shared

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// longIDMax bounds the id that is remembered of a line over the limit.
const longIDMax = 1 << 10

// longLine is a line over the limit: what was found of its top-level members
// while it streamed past. It is the error of LineConn.line.
type longLine struct {
	size   int
	id     json.RawMessage // nil if none was found
	method bool            // there is a "method": it is no answer

	depth    int
	inString bool
	escaped  bool
	afterKey bool   // the next value at depth 1 is key's
	key      []byte // the string at depth 1 before a colon, so far
	taking   bool   // val is being collected
	val      []byte
}

// Error says how long the line was.
func (l *longLine) Error() string { return fmt.Sprintf("a line of %d bytes", l.size) }

// find looks through the next part of the line. Text that is no JSON is found
// to have no id, or a wrong one that nobody waits for.
func (l *longLine) find(part []byte) {
	for _, c := range part {
		if l.taking && len(l.val) <= longIDMax && (l.inString || c != ',' && c != '}') {
			l.val = append(l.val, c)
		}
		if l.inString {
			switch {
			case l.escaped:
				l.escaped = false
			case c == '\\':
				l.escaped = true
			case c == '"':
				l.inString = false
			}
			if l.inString && l.depth == 1 && !l.afterKey && len(l.key) < 16 {
				l.key = append(l.key, c)
			}
			continue
		}
		switch c {
		case '"':
			l.inString = true
			if l.depth == 1 && !l.afterKey {
				l.key = l.key[:0]
			}
		case '{', '[':
			l.depth++
		case ':':
			if l.depth == 1 {
				l.colon()
			}
		case ',', '}', ']':
			if l.depth == 1 {
				l.endValue()
			}
			if c != ',' {
				l.depth--
			}
		}
	}
}

func (l *longLine) colon() {
	l.afterKey = true
	switch string(l.key) {
	case "id":
		l.taking, l.val = true, l.val[:0]
	case "method":
		l.method = true
	}
}

func (l *longLine) endValue() {
	l.afterKey = false
	if !l.taking {
		return
	}
	l.taking = false
	var id json.RawMessage
	if len(l.val) <= longIDMax && json.Unmarshal(bytes.TrimSpace(l.val), &id) == nil && id[0] != '{' && id[0] != '[' && string(id) != "null" {
		l.id = id
	}
}
