package config

import (
	"fmt"
	"strings"
	"testing"
)

// Values that repeat each other are refused before they fill the memory.
func TestValuesThatGrow(t *testing.T) {
	var text strings.Builder
	fmt.Fprintln(&text, "locals {\n  a0 = \"xxxxxxxxxx\"")
	for i := range 12 {
		fmt.Fprintf(&text, "  a%d = \"%s\"\n", i+1, strings.Repeat(fmt.Sprintf("${local.a%d}", i), 10))
	}
	fmt.Fprintln(&text, "}")
	_, diags := Parse([]byte(text.String()), "bomb.hcl", Options{})
	if got := diags.String(); !strings.Contains(got, "Value too large") || !strings.Contains(got, "bomb.hcl:9:") {
		t.Errorf("got %.2000s", got)
	}
}

// Nor does a function make much of little.
func TestFunctionsThatGrow(t *testing.T) {
	for _, expr := range []string{
		`format("%999999999s", "x")`,
		`format("%.99999d", 1)`,
		`format("%[1]099999d", 1)`,
		`formatlist("%-999999999s", ["x", "y"])`,
		`try(format("%999999999s", "x"), format("%99999s", "x"))`,
		strings.Repeat("jsonencode(", 60) + `"\""` + strings.Repeat(")", 60),
		strings.Repeat("base64encode(", 90) + `"x"` + strings.Repeat(")", 90),
		`replace(local.m, "x", local.m)`,
		`replace(local.m, "", local.m)`,
		`regexreplace(local.m, "x*", local.m)`,
		`join(local.m, split("", local.m))`,
		`formatlist("${local.m}%s", split("", local.m))`,
	} {
		text := "locals {\n  k = \"" + strings.Repeat("x", 1000) + "\"\n  m = \"" + strings.Repeat("${local.k}", 100) + "\"\n  bomb = " + expr + "\n}\n"
		_, diags := Parse([]byte(text), "bomb.hcl", Options{})
		if got := diags.String(); !strings.Contains(got, "Value too large") {
			t.Errorf("%.60s: got %.300s", expr, got)
		}
	}
	for _, expr := range []string{
		`format("%-20s %05d %5.1f %%12345", "x", 7, 1.5)`,
		`formatlist("%s-%d", ["a", "b"], [1, 2])`,
		`join(", ", ["a", "b"], ["c"])`,
		`replace("a.b.c", ".", "-")`,
		`merge({ a = 1 }, { b = sensitive("x") })`,
		`lookup({ a = sensitive("x") }, "a", "y")`,
		`coalesce(sensitive(""), "y")`,
	} {
		if _, diags := Parse([]byte("locals {\n  fine = "+expr+"\n}\n"), "fine.hcl", Options{}); diags.HasErrors() {
			t.Errorf("%s: %s", expr, diags)
		}
	}
}
