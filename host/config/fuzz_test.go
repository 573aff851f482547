package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzParse: no text panics the loader, and no diagnostic shows a secret.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.hcl*")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text), strings.HasSuffix(file, ".json"))
	}
	f.Add(everything, false)
	f.Add(`locals { a = [for k, v in { (env("TOKEN")) = 1 } : k => v...] }`, false)
	f.Add(`locals { a = { for v in [env("TOKEN")] : v => v } }`, false)
	f.Add(`locals { a = [env("TOKEN")][*].x }`, false)
	f.Add(`locals { a = merge([env("TOKEN")]...) }`, false)
	f.Add("server \"x\" {\n transport \"http\" {\n  url = \"%{ for x in env(\"TOKEN\") }%{ endfor }\"\n }\n}", false)
	f.Fuzz(func(t *testing.T, text string, isJSON bool) {
		name := "fuzz.hcl"
		if isJSON {
			name += ".json"
		}
		opts := options("TOKEN=qZ7-unguessable-9Xw")
		file, diags := Parse([]byte(text), name, opts)
		out := diags.String() + strings.Join(diags.Lines(), "\n")
		if file != nil {
			c, more := file.Resolve(t.Context(), &fakePlugins{opinion: opinionated})
			out += more.String() + strings.Join(more.Lines(), "\n")
			if c != nil {
				for _, s := range c.Servers {
					out += string(s.Transport.Display) + s.RangeOf([]any{"args", 0}) + s.Where()
				}
			}
		}
		if strings.Contains(out, "qZ7-unguessable-9Xw") {
			t.Errorf("the secret is shown:\n%s", out)
		}
	})
}
