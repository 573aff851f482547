package jsonrpc

import (
	"encoding/json"
	"errors"
	"testing"
)

func TestRoundTripKeepsBytes(t *testing.T) {
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"z":1,"a":1.0e400}}`,
		`{"jsonrpc":"2.0","id":"a\u0062","result":{"n":9007199254740993}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no \"x\"","data":{"k":[1]}}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse"}}`,
	} {
		m, err := Parse([]byte(text))
		if err != nil {
			t.Errorf("Parse(%s): %v", text, err)
			continue
		}
		if got := string(m.Append(nil)); got != text {
			t.Errorf("got  %s\nwant %s", got, text)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, invalid := range map[string]bool{
		`{"jsonrpc":"2.0"`:                       false,
		`hello`:                                  false,
		`[]`:                                     true,
		`{"id":1}`:                               true,
		`{"jsonrpc":"1.0","id":1,"method":"x"}`:  true,
		`{"jsonrpc":"2.0","id":1}`:               true,
		`{"jsonrpc":"2.0","id":{},"method":"x"}`: true,
		`{"jsonrpc":"2.0","id":null,"method":"x"}`:           true,
		`{"jsonrpc":"2.0","id":1,"method":7}`:                true,
		`{"jsonrpc":"2.0","id":1,"method":"x","params":"s"}`: true,
	} {
		_, err := Parse([]byte(text))
		if err == nil || errors.Is(err, ErrInvalid) != invalid {
			t.Errorf("Parse(%s) = %v, want ErrInvalid: %v", text, err, invalid)
		}
	}
}

// An error object of any form gives a code and a message to show.
func TestPoorErrors(t *testing.T) {
	for _, object := range []string{`{}`, `{"code":1}`, `{"message":""}`, `{"message":7}`, `"boom"`, `[]`, `true`} {
		m, err := Parse([]byte(`{"jsonrpc":"2.0","id":1,"error":` + object + `}`))
		if err != nil || m.Error == nil || m.Error.Message == "" || m.Error.Code == 0 {
			t.Errorf("%s: got %+v, %v", object, m.Error, err)
		}
	}
}

// FuzzParse checks that what is accepted is written as JSON again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"m"}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"error":"text"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if err != nil {
			return
		}
		if out := m.Append(nil); !json.Valid(out) {
			t.Fatalf("Parse(%q).Append made %q", data, out)
		}
	})
}
