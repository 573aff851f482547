package httpconn

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hermes-host/hermes-host/shared"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// Check returns what is wrong with the settings, with paths in terms of the
// attributes url, headers, ca_file, client_cert_file, client_key_file,
// connect_timeout and keep_alive. It shows no header's value and connects to
// nothing.
//
// A file that can't be used is a warning, be it absent or malformed: it is mended
// where the file is, and not in the settings. Until then [New] fails.
func (s Settings) Check() []shared.Diagnostic {
	var found []shared.Diagnostic
	report := func(summary, detail string, path ...*transportpb.PathStep) {
		found = append(found, shared.Diagnostic{Summary: summary, Detail: detail, Path: path})
	}
	warn := func(summary, detail, attribute string) {
		found = append(found, shared.Diagnostic{Warning: true, Summary: summary, Detail: detail, Path: shared.Path(shared.Attr(attribute))})
	}
	if detail := checkURL(s.URL); detail != "" {
		report("Invalid URL", detail, shared.Attr("url"))
	}
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		at := []*transportpb.PathStep{shared.Attr("headers"), shared.Key(name)}
		if detail := checkHeaderName(name); detail != "" {
			report("Invalid header name", detail, at...)
			continue
		}
		canonical := http.CanonicalHeaderKey(name)
		if other, ok := seen[canonical]; ok {
			report("Header given twice", fmt.Sprintf("%q and %q are the same header; header names don't distinguish case.", other, name), at...)
		}
		seen[canonical] = name
		if detail := checkHeaderValue(canonical, s.Headers[name]); detail != "" {
			report("Invalid header value", detail, at...)
		}
	}
	if s.CAFile != "" {
		if _, err := loadCA(s.CAFile); err != nil {
			warn("Unusable CA file", fmt.Sprintf("Reading the certificates of the authorities: %v.", err), "ca_file")
		}
	}
	switch {
	case s.ClientCertFile != "" && s.ClientKeyFile == "":
		report("Missing client key", "A client certificate needs its private key: set client_key_file too. It may name the same file.", shared.Attr("client_cert_file"))
	case s.ClientCertFile == "" && s.ClientKeyFile != "":
		report("Missing client certificate", "A private key needs its certificate: set client_cert_file too. It may name the same file.", shared.Attr("client_key_file"))
	case s.ClientCertFile != "":
		if _, err := tls.LoadX509KeyPair(s.ClientCertFile, s.ClientKeyFile); err != nil {
			warn("Unusable client certificate", fmt.Sprintf("Reading client certificate and key: %v.", err), "client_cert_file")
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"connect_timeout", s.ConnectTimeout}, {"keep_alive", s.KeepAlive}} {
		if d.value < 0 {
			report("Invalid duration", "The duration must not be negative.", shared.Attr(d.name))
		}
	}
	return found
}

func checkURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return "The URL is empty. Is a variable unset?"
	case err != nil:
		// The error's text repeats the URL, which may hold a secret.
		return "The URL cannot be parsed. It must look like https://example.com/mcp."
	case u.Scheme != "http" && u.Scheme != "https":
		return "The URL must begin with http:// or https://."
	case u.Hostname() == "":
		return "The URL names no host. It must look like https://example.com/mcp."
	case u.Fragment != "":
		return "The URL has a fragment (the part after #), which is never sent to a server."
	}
	return ""
}

// reserved headers belong to the protocols.
var reserved = map[string]bool{
	"Accept": true, "Connection": true, "Content-Length": true, "Content-Type": true, "Last-Event-Id": true,
	"Mcp-Method": true, "Mcp-Name": true, "Mcp-Protocol-Version": true, "Mcp-Session-Id": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

func checkHeaderName(name string) string {
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case !token(name):
		return "A header's name consists of letters, digits and the signs !#$%&'*+-.^_`|~."
	case reserved[canonical] || strings.HasPrefix(canonical, "Mcp-Param-"):
		return fmt.Sprintf("The transport sets %s itself.", canonical)
	}
	return ""
}

// unset is a reference that nobody has resolved.
var unset = regexp.MustCompile(`\$\{[^}]*\}`)

func checkHeaderValue(name, value string) string {
	for i := range len(value) {
		if value[i] < 0x20 && value[i] != '\t' || value[i] == 0x7f {
			return "A header's value can't contain control characters, such as the line end that ends most files: use trimspace()."
		}
	}
	trimmed := strings.TrimSpace(value)
	scheme, credentials, _ := strings.Cut(trimmed, " ")
	switch {
	case trimmed == "":
		return "The value is empty. Is a variable unset?"
	case unset.MatchString(value):
		return "The value contains a ${…} that was not replaced. Write env(\"NAME\") instead of a quoted reference."
	case name == "Authorization" && strings.TrimSpace(credentials) == "" && knownSchemes[strings.ToLower(scheme)]:
		return fmt.Sprintf("Nothing follows %q. Is a variable unset?", scheme)
	}
	return ""
}

var knownSchemes = map[string]bool{"basic": true, "bearer": true, "digest": true, "dpop": true, "token": true}
