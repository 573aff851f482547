package httpconn

import "encoding/json"

// Outline is what can be learnt of a JSON-RPC message that is too long to keep,
// while its bytes pass by: whom it concerns.
type Outline struct {
	ID        json.RawMessage // as sent; nil if absent
	HasMethod bool            // it is a request or a notification

	depth  int
	text   bool // within a string
	escape bool // after a backslash
	member int  // where in the outermost object
	key    []byte
}

// Where scan is in the outermost object.
const (
	beforeKey = iota
	inKey
	afterKey
	inValue
)

// maxID bounds the ids that are recognised.
const maxID = 256

// scan follows the text. It accepts anything; what is no JSON object gives no
// id.
func (o *Outline) scan(part []byte) {
	for _, c := range part {
		if o.text {
			o.inText(c)
			continue
		}
		switch c {
		case '"':
			o.text = true
			if o.depth == 1 && o.member == beforeKey {
				o.member, o.key = inKey, o.key[:0]
				continue
			}
		case '{', '[':
			o.depth++
			continue
		case '}', ']':
			o.depth--
			continue
		case ':':
			if o.depth == 1 && o.member == afterKey {
				o.member = inValue
				switch string(o.key) {
				case "id":
					o.ID = nil // the last of several counts, as in a decoder
				case "method":
					o.HasMethod = true
				}
				continue
			}
		case ',':
			if o.depth == 1 {
				o.member = beforeKey
				continue
			}
		case ' ', '\t', '\n', '\r':
			continue
		}
		o.value(c)
	}
}

// inText handles a byte within a string.
func (o *Outline) inText(c byte) {
	ends := c == '"' && !o.escape
	o.escape = c == '\\' && !o.escape
	if ends {
		o.text = false
	}
	if o.depth == 1 && o.member == inKey {
		switch {
		case ends:
			o.member = afterKey
		case len(o.key) < 16:
			o.key = append(o.key, c)
		}
		return
	}
	o.value(c)
}

// value keeps a byte of the id.
func (o *Outline) value(c byte) {
	if o.depth == 1 && o.member == inValue && string(o.key) == "id" && len(o.ID) < maxID {
		o.ID = append(o.ID, c)
	}
}
