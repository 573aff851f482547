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

// For expressions within each other are bounded together.
func TestForExpressionsThatGrow(t *testing.T) {
	for expr, fits := range map[string]bool{
		`[for a in local.l : [for b in local.l : [for c in local.l : "${a}${b}${c}"]]]`: false,
		`[for a in local.l : [for b in local.l : "${a}${b}"]]`:                          false,
		`{ for a in local.l : a => local.m... }`:                                        false,
		`[for a in split(",", local.m) : [for b in split(",", local.m) : 1]]`:           false,
		`[for a in local.l : upper(a) if a != "x"]`:                                     true,
		`{ for a in local.s : a => [for b in local.s : "${a}-${b}"] }`:                  true,
		`[for a in local.o : [for b in a.l : b]]`:                                       true,
	} {
		text := fmt.Sprintf(`locals {
  k = %q
  m = %q
  l = split(",", local.k)
  s = ["a", "b", "c"]
  o = [{ l = local.l }, { l = local.s }]
  it = %s
}`, strings.Repeat("x,", 2000), strings.Repeat("x,", 200_000), expr)
		_, diags := Parse([]byte(text), "for.hcl", Options{})
		if got := diags.String(); strings.Contains(got, "Value too large") == fits || fits && diags.HasErrors() {
			t.Errorf("%s: got %.300s", expr, got)
		}
	}
}
