package jsonrpc

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Outline is what can be learnt of a text that Parse cannot give: one that is
// too long to keep, nested too deeply, cut off, or no valid JSON for any other
// reason. It tells which requests such a text means to answer, so that they can
// fail alone and at once. The zero value is ready; bytes are given to Scan as
// they pass by.
//
// A text may hold several messages: a batch, or objects one after the other.
// One that does not begin like a message holds none: what a program prints may
// well have an "id" in it.
type Outline struct {
	answers []json.RawMessage // of the objects that have ended
	asks    bool

	begun   bool // the first character that counts has come
	foreign bool // and it was not that of a message
	base    int  // the depth of messages: 1 within a batch, else 0
	depth   int

	text   bool // within a string
	escape bool // after a backslash
	member int  // where in the message
	key    []byte
	val    []byte // of an id
	now    outlined
}

// outlined is what is known of the message that passes by.
type outlined struct {
	ids     []json.RawMessage
	version bool // it has a "jsonrpc"
	asks    bool // it has a "method"
	outcome bool // it has a "result" or an "error"
}

// Where Scan is in a message.
const (
	beforeKey = iota
	inKey
	afterKey
	inValue
)

const (
	maxOutlineID  = 256 // the longest id that is recognised
	maxOutlineIDs = 128 // so many answers are told of one text
)

// byteOrderMark is U+FEFF in UTF-8. A reader may ignore one before a text (RFC
// 8259, section 8.1).
const byteOrderMark = "\xef\xbb\xbf"

// Scan follows the next part of the text. It accepts anything.
func (o *Outline) Scan(part []byte) {
	for _, c := range part {
		if o.foreign {
			return
		}
		if o.text {
			o.inText(c)
			continue
		}
		if !o.begun && !o.begins(c) {
			continue
		}
		switch c {
		case '"':
			o.text = true
			if o.inMessage() && o.member == beforeKey {
				o.member, o.key = inKey, o.key[:0]
				continue
			}
		case '{', '[':
			if o.depth++; c == '{' && o.inMessage() {
				o.member = beforeKey
				continue
			}
		case '}', ']':
			if o.inMessage() && c == '}' {
				o.endValue()
				o.endMessage(true)
			}
			o.depth--
			continue
		case ':':
			if o.inMessage() && o.member == afterKey {
				o.member = inValue
				o.beginValue()
				continue
			}
		case ',':
			if o.inMessage() {
				o.endValue()
				o.member = beforeKey
				continue
			}
		case ' ', '\t', '\n', '\r':
			continue
		}
		o.value(c)
	}
}

// Answers returns the ids of the requests that the text means to answer, as far
// as it says so. Of a text that is cut off the last message counts too, if its
// id was whole.
func (o *Outline) Answers() []json.RawMessage {
	last := *o
	last.answers = slices.Clip(o.answers)
	last.endMessage(false)
	return last.answers
}

// Asks reports whether a message in the text has a method: it is a request or
// a notification.
func (o *Outline) Asks() bool { return o.asks }

// begins looks at the first characters; false if c is still before the text.
func (o *Outline) begins(c byte) bool {
	switch c {
	case ' ', '\t', '\n', '\r', byteOrderMark[0], byteOrderMark[1], byteOrderMark[2]:
		return false
	case '[':
		o.base = 1
	case '{':
	default:
		o.foreign = true
		return false
	}
	o.begun = true
	return true
}

// inMessage reports whether the members of a message pass by, and not what is
// around or within them.
func (o *Outline) inMessage() bool { return o.depth == o.base+1 }

// inText handles a byte within a string.
func (o *Outline) inText(c byte) {
	ends := c == '"' && !o.escape
	o.escape = c == '\\' && !o.escape
	if ends {
		o.text = false
	}
	if o.inMessage() && o.member == inKey {
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

// value keeps a byte of an id.
func (o *Outline) value(c byte) {
	if o.member == inValue && o.inMessage() && string(o.key) == "id" && len(o.val) <= maxOutlineID {
		o.val = append(o.val, c)
	}
}

func (o *Outline) beginValue() {
	switch string(o.key) {
	case "id":
		o.val = o.val[:0]
	case "jsonrpc":
		o.now.version = true
	case "method":
		o.now.asks, o.asks = true, true
	case "result", "error":
		o.now.outcome = true
	}
}

// endValue takes an id that has passed by.
func (o *Outline) endValue() {
	if o.member != inValue || string(o.key) != "id" || len(o.val) > maxOutlineID {
		return
	}
	if id := bytes.Clone(o.val); json.Valid(id) && validID(id) && len(o.now.ids) < maxOutlineIDs {
		o.now.ids = append(o.now.ids, id)
	}
	o.val = o.val[:0]
}

// endMessage takes the ids of a message that is an answer. A message that is
// cut off must have shown its outcome: its method might have been to come.
func (o *Outline) endMessage(whole bool) {
	now := o.now
	o.now, o.member = outlined{}, beforeKey
	if now.asks || !now.outcome && !(whole && now.version) {
		return
	}
	for _, id := range now.ids {
		known := slices.ContainsFunc(o.answers, func(a json.RawMessage) bool { return bytes.Equal(a, id) })
		if !known && len(o.answers) < maxOutlineIDs {
			o.answers = append(o.answers, id)
		}
	}
}
