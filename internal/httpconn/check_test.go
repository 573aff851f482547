package httpconn

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

func show(path []*transportpb.PathStep) string {
	var b strings.Builder
	for _, s := range path {
		if k := s.GetKey(); k != "" {
			b.WriteString("[" + k + "]")
		} else {
			b.WriteString(s.GetAttribute())
		}
	}
	return b.String()
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.pem")
	if err := os.WriteFile(garbage, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	headers := func(kv ...string) Settings {
		s := Settings{URL: "https://example.com/mcp", Headers: map[string]string{}}
		for i := 0; i < len(kv); i += 2 {
			s.Headers[kv[i]] = kv[i+1]
		}
		return s
	}
	tests := map[string]struct {
		settings Settings
		path     string // "" for a good configuration
		text     string
	}{
		"good":               {headers("Authorization", "Bearer s3cret", "X-Api-Key", "s3cret", "Host", "other"), "", ""},
		"no url":             {Settings{}, "url", "empty"},
		"relative":           {Settings{URL: "/mcp"}, "url", "http://"},
		"other scheme":       {Settings{URL: "ftp://s3cret@example.com"}, "url", "http://"},
		"no host":            {Settings{URL: "http:///s3cret"}, "url", "no host"},
		"unparsable":         {Settings{URL: "http://s3cret\x7f"}, "url", "parsed"},
		"fragment":           {Settings{URL: "http://a/b#s3cret"}, "url", "fragment"},
		"header name":        {headers("X Key", "s3cret"), "headers[X Key]", "letters"},
		"reserved":           {headers("mcp-session-id", "s3cret"), "headers[mcp-session-id]", "itself"},
		"reserved prefix":    {headers("Mcp-Param-X", "s3cret"), "headers[Mcp-Param-X]", "itself"},
		"twice":              {headers("X-Key", "s3cret", "x-key", "s3cret"), "headers[x-key]", "same header"},
		"line end":           {headers("X-Key", "s3cret\n"), "headers[X-Key]", "trimspace"},
		"empty":              {headers("X-Key", " "), "headers[X-Key]", "unset"},
		"empty bearer":       {headers("Authorization", "Bearer "), "headers[Authorization]", "unset"},
		"literal reference":  {headers("Authorization", "Bearer ${TOKEN}"), "headers[Authorization]", "not replaced"},
		"no ca file":         {Settings{URL: "https://a", CAFile: filepath.Join(dir, "absent")}, "ca_file", "no such file"},
		"ca file of garbage": {Settings{URL: "https://a", CAFile: garbage}, "ca_file", "PEM"},
		"cert without key":   {Settings{URL: "https://a", ClientCertFile: garbage}, "client_cert_file", "client_key_file"},
		"key without cert":   {Settings{URL: "https://a", ClientKeyFile: garbage}, "client_key_file", "client_cert_file"},
		"cert of garbage":    {Settings{URL: "https://a", ClientCertFile: garbage, ClientKeyFile: garbage}, "client_cert_file", "PEM"},
		"negative":           {Settings{URL: "https://a", KeepAlive: -1}, "keep_alive", "negative"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var found []shared.Diagnostic = test.settings.Check()
			if test.path == "" {
				if len(found) != 0 {
					t.Errorf("got %+v", found)
				}
				return
			}
			if len(found) != 1 {
				t.Fatalf("%d diagnostics: %+v", len(found), found)
			}
			d := found[0]
			if file := strings.HasPrefix(d.Summary, "Unusable"); d.Warning != file {
				t.Errorf("warning %v: %s", d.Warning, d.Summary)
			}
			if show(d.Path) != test.path || !strings.Contains(d.Detail, test.text) || d.Summary == "" {
				t.Errorf("at %s: %s", show(d.Path), d.Detail)
			}
			if strings.Contains(d.Detail+d.Summary, "s3cret") {
				t.Errorf("a secret in %q", d.Detail)
			}
		})
	}
}

func TestHeaderValue(t *testing.T) {
	for text, want := range map[string]string{
		"":                "",
		"read_file":       "read_file",
		"two words":       "two words",
		" padded":         "=?base64?IHBhZGRlZA==?=",
		"tab\t":           "=?base64?dGFiCQ==?=",
		"größe":           "=?base64?Z3LDtsOfZQ==?=",
		"a\r\nX-Evil:1":   "=?base64?YQ0KWC1FdmlsOjE=?=",
		"=?base64?eA==?=": "=?base64?PT9iYXNlNjQ/ZUE9PT89?=",
	} {
		if got := HeaderValue(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
