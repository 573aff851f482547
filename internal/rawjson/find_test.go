package rawjson

import (
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	obj := []byte(` {"a": 1 ,"n\u0061me" : "x","b":{"name":2}} `)
	var at [3]Span
	if err := Find(obj, at[:], "name", "b", "absent"); err != nil {
		t.Fatal(err)
	}
	if got := string(at[0].Of(obj)); got != `"x"` {
		t.Errorf("name is %s", got)
	}
	if got := string(at[1].Of(obj)); got != `{"name":2}` {
		t.Errorf("b is %s", got)
	}
	if at[2] != (Span{}) {
		t.Errorf("absent is at %v", at[2])
	}
	for text, want := range map[string]string{`{"b":1,"\u0062":2}`: "twice", `[]`: "expected an object", `{"b":1`: "comma"} {
		if err := Find([]byte(text), at[:1], "b"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if err := Find([]byte(`{"x":1,"x":2}`), at[:1], "b"); err != nil {
		t.Errorf("a member that nobody asked for: %v", err)
	}
}
