package plugintest

// What a plugin says of itself and of configurations.

import (
	"testing"

	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/hermes-host/hermes-host/shared/transportpb"
)

func describe(t *testing.T, s Suite) {
	p := s.start(t)
	about, err := p.Describe(within(t, patience), &transportpb.DescribeRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if about.Kind == "" || about.Version == "" {
		t.Errorf("kind %q and version %q must not be empty", about.Kind, about.Version)
	}
	for _, a := range about.Schema {
		typ, err := ctyjson.UnmarshalType(a.Type)
		if err != nil {
			t.Errorf("attribute %q: its type %s: %v", a.Name, a.Type, err)
			continue
		}
		if a.Doc == "" {
			t.Errorf("attribute %q has no doc", a.Name)
		}
		if len(a.Default) > 0 {
			if _, err := ctyjson.Unmarshal(a.Default, typ); err != nil {
				t.Errorf("attribute %q: its default: %v", a.Name, err)
			}
			if a.Required {
				t.Errorf("attribute %q is required and has a default", a.Name)
			}
		}
	}
}

func validate(t *testing.T, s Suite) {
	p := s.start(t)
	errorsOf := func(block string) []*transportpb.Diagnostic {
		r, err := p.Validate(within(t, patience), &transportpb.ValidateRequest{Config: []byte(block)})
		if err != nil {
			t.Fatal(err)
		}
		var all []*transportpb.Diagnostic
		for _, d := range r.Diagnostics {
			if d.Summary == "" {
				t.Errorf("a diagnostic without a summary: %v", d)
			}
			if d.Severity != transportpb.Diagnostic_SEVERITY_WARNING {
				all = append(all, d)
			}
		}
		return all
	}
	if all := errorsOf(s.Config(t)); len(all) > 0 {
		t.Errorf("a good block is refused: %v", all)
	}
	for name, block := range s.Invalid {
		all := errorsOf(block)
		if len(all) == 0 {
			t.Errorf("accepted %s", block)
		}
		for _, d := range all {
			if len(d.Path) == 0 || d.Path[0].GetAttribute() != name {
				t.Errorf("%s: the path %v does not begin with attribute %q", block, d.Path, name)
			}
		}
	}
}
