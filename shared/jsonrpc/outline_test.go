package jsonrpc

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func outline(parts ...[]byte) *Outline {
	o := &Outline{}
	for _, p := range parts {
		o.Scan(p)
	}
	return o
}

func TestOutline(t *testing.T) {
	for text, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"result":{"id":8}}`:                     `[7] false`,
		` {"result":{"id":8,"x":["id",{"id":1}]}, "id" : "a\",}b" }`:     `["a\",}b"] false`,
		`{"jsonrpc":"2.0","id":7}`:                                       `[7] false`,
		`{"id":7}`:                                                       `[] false`,
		`{"jsonrpc":"2.0","id":7,"method":"m","params":{}}`:              `[] true`,
		`{"jsonrpc":"2.0","method":"m"}`:                                 `[] true`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":1}}`:                 `[] false`,
		`{"jsonrpc":"2.0","id":{"a":1},"result":1}`:                      `[] false`,
		`{"jsonrpc":"2.0","id":7,"id":8,"result":1}`:                     `[7 8] false`,
		`{"jsonrpc":"2.0","id":7,"id":7,"result":1}`:                     `[7] false`,
		`{"jsonrpc":"2.0","id":7,"res`:                                   `[] false`,
		`{"jsonrpc":"2.0","id":7,"result":{"a":"b`:                       `[7] false`,
		`{"jsonrpc":"2.0","result":{},"id":7`:                            `[] false`,
		`{"id":1,"result":1}{"id":2,"result":1}{"id":3,"method":"m"}`:    `[1 2] true`,
		`[{"id":1,"result":1},{"id":2,"method":"m"},{"id":3,"error":{},`: `[1 3] true`,
		"\ufeff" + `{"id":1,"result":1}`:                                 `[1] false`,
		`INFO {"jsonrpc":"2.0","id":1,"result":1}`:                       `[] false`,
		`"id":1,"result":1`:                                              `[] false`,
		`{"id":1,"result":` + strings.Repeat("[", 20_000):                `[1] false`,
		`{"id":` + strings.Repeat("1", 300) + `,"result":1}`:             `[] false`,
	} {
		for _, cut := range []int{0, 1, len(text) / 2} {
			o := outline([]byte(text[:cut]), []byte(text[cut:]))
			if got := fmt.Sprintf("%s %t", o.Answers(), o.Asks()); got != want {
				t.Errorf("%.80s: got %s, want %s", text, got, want)
			}
		}
	}
}

// FuzzOutline checks that an outline agrees with the parser on what is valid,
// however the text comes in.
func FuzzOutline(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":12,"result":{"id":3}}`), 5)
	f.Add([]byte(`{"jsonrpc":"2.0","result":"\"id\":4","id":"x"}`), 3)
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		cut = min(max(cut, 0), len(text))
		o := outline(text[:cut], text[cut:])
		answers := o.Answers()
		m, err := Parse(text)
		if err != nil || bytes.Contains(text, []byte(`\u`)) || len(m.ID) > maxOutlineID {
			return // not JSON-RPC, or keys spelt with escapes, which nobody does
		}
		want := ""
		if m.IsResponse() && m.ID != nil {
			want = string(m.ID)
		}
		if got := string(bytes.Join(asBytes(answers), nil)); got != want {
			t.Errorf("%s: answers %s, want %s", text, got, want)
		}
	})
}

func asBytes[T ~[]byte](all []T) [][]byte {
	var out [][]byte
	for _, one := range all {
		out = append(out, one)
	}
	return out
}
