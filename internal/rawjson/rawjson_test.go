package rawjson

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

var texts = []string{
	`{}`, `[]`, `null`, `true`, `false`, `0`, `-0.5e+10`, `"a\u00e9\n"`, ` {"a" : [1, 2 ,{"b":"c"}] } `,
	``, `{`, `}`, `[1,]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `01`, `-`, `1.`, `1e`, `"`, `"\x"`, `"\u12g4"`, "\"a\tb\"",
	`tru`, `nul`, `{"a":1}x`, `"` + strings.Repeat("long ", 50) + `"`, `"12345678` + "\x01" + `"`, `[[[[]]]]`, `{1:2}`,
	`"\ud83d\ude00"`, `1E5`, `+1`, `.5`, `["a" "b"]`, `{"a":1 "b":2}`,
}

// FuzzCheck holds Check to the verdict of encoding/json.
func FuzzCheck(f *testing.F) {
	for _, s := range texts {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := Check(data)
		if want := json.Valid(data); (err == nil) != want {
			t.Fatalf("Check(%q) = %v, encoding/json says %v", data, err, want)
		}
		if err != nil && !errors.Is(err, ErrSyntax) {
			t.Fatalf("error %v does not wrap ErrSyntax", err)
		}
	})
}

func TestCheckDepth(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)
	if Check([]byte(deep)) == nil {
		t.Fatal("nesting beyond MaxDepth passed")
	}
}

func TestDepth(t *testing.T) {
	for text, want := range map[string]int{`1`: 0, `"[["`: 0, `[]`: 1, `{"a":[1,{"b":"]"}],"c":[]}`: 3} {
		if got := Depth([]byte(text)); got != want {
			t.Errorf("Depth(%s) = %d, want %d", text, got, want)
		}
	}
}

func TestMembersKeepTheBytes(t *testing.T) {
	obj := []byte(`{"id": 9007199254740993, "n\u0061me":"x", "big":1.0e400, "id" : 7 }`)
	var out [3]json.RawMessage
	if err := Members(obj, out[:], "id", "name", "absent"); err != nil {
		t.Fatal(err)
	}
	if string(out[0]) != "7" || string(out[1]) != `"x"` || out[2] != nil {
		t.Fatalf("got %q", out)
	}
	if got := string(Get(obj, "big")); got != "1.0e400" {
		t.Fatalf("big = %s", got)
	}
}

func TestSet(t *testing.T) {
	for _, c := range []struct{ obj, val, want, path string }{
		{`{}`, `1`, `{"a":1}`, "a"},
		{``, `1`, `{"a":1}`, "a"},
		{`{ "a" : 1 , "b":2}`, `"x"`, `{ "a" : "x" , "b":2}`, "a"},
		{`{"b":2 }`, `3`, `{"b":2,"a":3 }`, "a"},
		{`{"m":{"t":1,"u":2}}`, `9`, `{"m":{"t":9,"u":2}}`, "m.t"},
		{`{"x":1}`, `9`, `{"x":1,"m":{"t":9}}`, "m.t"},
	} {
		got, err := Set([]byte(c.obj), []byte(c.val), strings.Split(c.path, ".")...)
		if err != nil || string(got) != c.want {
			t.Errorf("Set(%s, %s, %s) = %s, %v; want %s", c.obj, c.val, c.path, got, err, c.want)
		}
	}
	for _, bad := range []string{`[]`, `1`, `{"a":`, `{"m":3}`} {
		if _, err := Set([]byte(bad), []byte(`1`), "m", "t"); err == nil {
			t.Errorf("Set in %s succeeded", bad)
		}
	}
}

func TestDelete(t *testing.T) {
	for _, c := range []struct{ obj, path, want string }{
		{`{"a":1}`, "a", `{}`},
		{`{"a":1,"b":2}`, "a", `{"b":2}`},
		{`{"a":1,"b":2,"c":3}`, "b", `{"a":1,"c":3}`},
		{`{"a":1,"b":2}`, "b", `{"a":1}`},
		{`{"a":1}`, "x", `{"a":1}`},
		{`{"m":{"t":1,"u":2}}`, "m.t", `{"m":{"u":2}}`},
	} {
		if got := string(Delete([]byte(c.obj), strings.Split(c.path, ".")...)); got != c.want {
			t.Errorf("Delete(%s, %s) = %s, want %s", c.obj, c.path, got, c.want)
		}
	}
}

// FuzzSetGet checks that what was set is there, and that the rest is as it was.
func FuzzSetGet(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":{"c":[1,2]}}`), "b")
	f.Fuzz(func(t *testing.T, obj []byte, name string) {
		if !utf8.ValidString(name) {
			return // encoding/json would replace the bytes in before and after
		}
		out, err := Set(obj, []byte(`"v"`), name)
		if err != nil {
			return
		}
		if !json.Valid(out) {
			t.Fatalf("Set(%q, %q) made %q", obj, name, out)
		}
		var before, after map[string]json.RawMessage
		if len(obj) > 0 && json.Unmarshal(obj, &before) != nil {
			t.Fatalf("Set accepted %q", obj)
		}
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatal(err)
		}
		for k, v := range before {
			if k != name && string(after[k]) != string(v) {
				t.Fatalf("member %q changed from %s to %s", k, v, after[k])
			}
		}
	})
}

func BenchmarkCheckText1MiB(b *testing.B) {
	data := []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("lorem ipsum dolor ", 1<<20/18) + `"}]}`)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := Check(data); err != nil {
			b.Fatal(err)
		}
	}
}
