package config

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/hermes-host/hermes-host/shared/transportpb"
)

func reference(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestReferenceIsComplete: docs/configuration.md names every block, attribute
// and function that there is.
func TestReferenceIsComplete(t *testing.T) {
	doc := reference(t)
	p := &probe{names: map[string]bool{}}
	d := &decoder{
		ctx:   &hcl.EvalContext{Variables: map[string]cty.Value{}},
		scope: map[string][]string{},
		src:   &source{secrets: &secrets{}},
	}
	d.file(p, &File{}, options())
	if len(p.names) < 40 {
		t.Fatalf("only %d names were found", len(p.names))
	}
	for _, name := range slices.Sorted(maps.Keys(p.names)) {
		if !strings.Contains(doc, "`"+name+"`") && !regexp.MustCompile(`(?m)^#+ .*\b`+name+`\b`).MatchString(doc) {
			t.Errorf("%q is not described", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(functions(".", environ(), &secrets{}))) {
		if !strings.Contains(doc, "`"+name+"(") {
			t.Errorf("the function %s is not described", name)
		}
	}
}

// probe is a body that has one of each block and notes what it is asked for.
type probe struct{ names map[string]bool }

func (p *probe) Content(schema *hcl.BodySchema) (*hcl.BodyContent, hcl.Diagnostics) {
	content := &hcl.BodyContent{}
	for _, a := range schema.Attributes {
		p.names[a.Name] = true
	}
	for _, b := range schema.Blocks {
		p.names[b.Type] = true
		block := &hcl.Block{Type: b.Type, Body: p}
		for range b.LabelNames {
			block.Labels, block.LabelRanges = append(block.Labels, "http"), append(block.LabelRanges, hcl.Range{})
		}
		content.Blocks = append(content.Blocks, block)
	}
	return content, nil
}

func (p *probe) PartialContent(schema *hcl.BodySchema) (*hcl.BodyContent, hcl.Body, hcl.Diagnostics) {
	content, diags := p.Content(schema)
	return content, p, diags
}
func (p *probe) JustAttributes() (hcl.Attributes, hcl.Diagnostics) { return nil, nil }
func (p *probe) MissingItemRange() hcl.Range                       { return hcl.Range{} }

// TestExamplesAreValid: every example of the reference, and config.hcl with and
// without what is commented out, is a valid configuration.
func TestExamplesAreValid(t *testing.T) {
	examples := map[string]string{}
	for i, m := range regexp.MustCompile("(?ms)^```(hcl|json)\n(.*?)^```").FindAllStringSubmatch(reference(t), -1) {
		examples[string(rune('a'+i))+"."+m[1]] = m[2]
	}
	if len(examples) < 8 {
		t.Fatalf("only %d examples were found", len(examples))
	}
	text, err := os.ReadFile("../../config.hcl")
	if err != nil {
		t.Fatal(err)
	}
	examples["config.hcl"] = string(text)
	examples["uncommented.hcl"] = regexp.MustCompile(`(?m)^# (server "|  |})`).ReplaceAllString(string(text), "$1")
	if strings.Count(examples["uncommented.hcl"], "\nserver ") != 3 {
		t.Error("config.hcl has no commented examples any more")
	}
	opts := options("HERMES_TOKEN=0123456789abcdef", "TICKETS_TOKEN=tickets-token", "GITHUB_TOKEN=github-token",
		"INTERNAL_KEY=internal-key", "EXAMPLE_TOKEN=example-token", "FILES_TOKEN=files-token")
	for name, text := range examples {
		t.Run(name, func(t *testing.T) {
			f, diags := Parse([]byte(text), filepath.Join(t.TempDir(), name), opts)
			if diags.Len() > 0 {
				t.Fatal(diags)
			}
			if _, diags = f.Resolve(t.Context(), house{}); diags.Len() > 0 {
				t.Fatal(diags)
			}
		})
	}
}

// house has the schemas of the house's plugins, as the reference gives them,
// and takes anything.
type house struct{}

func (house) Schema(_ context.Context, kind string) ([]*transportpb.Attribute, error) {
	if kind == "stdio" {
		return fakeSchemas[kind], nil
	}
	all := []*transportpb.Attribute{
		{Name: "url", Type: typ(`"string"`), Required: true},
		{Name: "headers", Type: typ(`["map","string"]`), Default: []byte(`{}`), Sensitive: true},
	}
	for _, name := range []string{"ca_file", "client_cert_file", "client_key_file", "connect_timeout", "keep_alive"} {
		all = append(all, &transportpb.Attribute{Name: name, Type: typ(`"string"`)})
	}
	return all, nil
}

func (house) Validate(context.Context, string, []byte) ([]*transportpb.Diagnostic, error) {
	return nil, nil
}
