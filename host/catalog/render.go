package catalog

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"

	"github.com/hermes-host/hermes-host/internal/rawjson"
)

// Stateless is the first MCP version whose results carry resultType, ttlMs and
// cacheScope (SEP-2322, SEP-2549).
const Stateless = "2026-07-28"

// Bounds of one page of ours. Clients page on with nextCursor.
const (
	pageEntries = 1000
	pageBytes   = 4 << 20
)

// ErrCursor says that a cursor is not one of ours or its place in the list is
// gone. The specification wants Invalid params (-32602) for it.
var ErrCursor = errors.New("invalid cursor")

// pages is one list as JSON results.
type pages struct {
	all   []json.RawMessage
	index map[string]int // by cursor
	tail  []byte         // what follows the entries, from the second member on
}

// List returns a page of a list as a complete result, ready to be sent to a
// client of the given MCP version. The caller must not change it. Cursor is
// the JSON string or nil that the client sent; the error is ErrCursor.
//
// A cursor names the entry that its page came to an end with, so it stays good
// over changes of the list as long as that entry is there.
func (v *View) List(kind Kind, cursor json.RawMessage, version string) (json.RawMessage, error) {
	l := &v.lists[kind]
	era := &l.eras[0]
	if version >= Stateless {
		era = &l.eras[1]
	}
	era.once.Do(func() { era.pages = v.paginate(kind, version) })
	p := era.pages
	if cursor == nil || string(cursor) == "null" {
		return p.all[0], nil
	}
	text := rawjson.Unquote(cursor)
	if i, ok := p.index[text]; ok {
		return p.all[i], nil
	}
	for i, outer := range l.outer {
		if text == cursorAfter(kind, outer) {
			page, _ := v.page(kind, i+1, p.tail)
			return page, nil
		}
	}
	return nil, ErrCursor
}

// Len returns the number of entries in a list.
func (v *View) Len(kind Kind) int { return len(v.lists[kind].entries) }

func (v *View) paginate(kind Kind, version string) *pages {
	p := &pages{index: map[string]int{}, tail: v.tail(kind, version)}
	for from := 0; ; {
		page, to := v.page(kind, from, p.tail)
		p.all = append(p.all, page)
		if to == len(v.lists[kind].entries) {
			return p
		}
		p.index[cursorAfter(kind, v.lists[kind].outer[to-1])] = len(p.all)
		from = to
	}
}

// page renders the page that begins at an entry, and returns where the next
// one begins.
func (v *View) page(kind Kind, from int, tail []byte) (json.RawMessage, int) {
	l := &v.lists[kind]
	size := 64 + len(tail)
	to := from
	for ; to < len(l.entries) && to-from < pageEntries; to++ {
		more := len(l.entries[to].raw) + len(l.entries[to].says) + maxName
		if to > from && size+more > pageBytes {
			break
		}
		size += more
	}
	out := make([]byte, 0, size)
	out = append(append(append(out, '{'), rawjson.Quote(kind.member())...), `:[`...)
	for i := from; i < to; i++ {
		if i > from {
			out = append(out, ',')
		}
		out = append(out, l.entries[i].render(l.outer[i], v.naming)...)
	}
	out = append(out, ']')
	if to < len(l.entries) {
		out = append(append(out, `,"nextCursor":`...), rawjson.Quote(cursorAfter(kind, l.outer[to-1]))...)
	}
	return append(append(out, tail...), '}'), to
}

// tail renders the members of a result besides its entries. A server alone
// keeps those that it sent; what the client's version wants is added.
func (v *View) tail(kind Kind, version string) []byte {
	var extra []member
	if v.naming == Own && len(v.offers) == 1 {
		extra = v.offers[0].heard[kind].extra
		if version < Stateless && v.offers[0].info.ProtocolVersion >= Stateless {
			extra = slices.DeleteFunc(slices.Clone(extra), func(m member) bool {
				return slices.ContainsFunc(cacheMembers, func(own member) bool { return own.name == m.name })
			})
		}
	}
	if version >= Stateless {
		for _, own := range cacheMembers {
			if !slices.ContainsFunc(extra, func(m member) bool { return m.name == own.name }) {
				extra = append(slices.Clip(extra), own)
			}
		}
	}
	var out []byte
	for _, m := range extra {
		out = append(append(append(append(out, ','), rawjson.Quote(m.name)...), ':'), m.raw...)
	}
	return out
}

// cacheMembers is what a complete result says where no server does: it is
// stale at once, since list_changed is what we promise, and not for sharing,
// since another user of the host may be shown other servers.
var cacheMembers = []member{
	{"resultType", json.RawMessage(`"complete"`)},
	{"ttlMs", json.RawMessage(`0`)},
	{"cacheScope", json.RawMessage(`"private"`)},
}

func cursorAfter(kind Kind, outer string) string {
	sum := sha256.Sum256([]byte(kind.member() + "\x00" + outer))
	return base64.RawURLEncoding.EncodeToString(sum[:15])
}
