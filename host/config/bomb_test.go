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
