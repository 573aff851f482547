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
			t.Errorf("attribute %q has no doc: people see it in hermes-host plugins (in Go, the tag doc:\"…\")", a.Name)
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

// learnt: what the host has kept for a plugin may be of another version of it,
// and what it asks for may be more than the plugin knows. Neither keeps a
// session from coming about, and what comes of it is within bounds.
func learnt(t *testing.T, s Suite) {
	p := s.start(t)
	for _, open := range []*transportpb.OpenSession{
		{Learnt: []byte("\x00{not for you")},
		{Learnt: []byte(`{"begin":"initialize","versions":["2024-11-05"],"conn":"?"}`)},
		{ClientVersion: "2025-06-18"},
		{ClientVersion: "2999-12-31"},
	} {
		session := s.session(t, p, open)
		if n := len(session.Init.Learnt); n > maxLearnt {
			t.Errorf("learnt %d bytes, and %d is the limit", n, maxLearnt)
		}
		if r := session.Tool("echo", `{"value":1}`); r.GetResult() == nil {
			t.Errorf("no answer with %v: %v", open, r)
		}
		session.CloseSession()
		session.AwaitEnd()
	}
}

// maxLearnt is what the host keeps of SessionInit.learnt, in bytes.
const maxLearnt = 4 << 10
