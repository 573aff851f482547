package config

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want time.Duration
		err  string // part of the message
	}{
		{in: "60s", want: time.Minute},
		{in: " 1h30m ", want: 90 * time.Minute},
		{in: "500ms", want: 500 * time.Millisecond},
		{in: "0s"},
		{in: "0", err: "unit"},
		{in: "2.5", err: "unit"},
		{in: "-1s", err: "negative"},
		{in: "", err: "such as"},
		{in: "1d", err: "such as"},
		{in: "9000h", err: "year"},
		{in: "99999999999h", err: "such as"},
	} {
		got, err := parseDuration(tt.in)
		check(t, tt.in, got, tt.want, err, tt.err)
	}
}

func TestParseSize(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want int64
		err  string
	}{
		{in: "64MiB", want: 64 << 20},
		{in: "1mb", want: 1_000_000},
		{in: "2 GiB", want: 2 << 30},
		{in: "4096", want: 4096},
		{in: "10B", want: 10},
		{in: "64M", err: "in full"},
		{in: "1TB", err: "unit"},
		{in: "-1", err: "whole number"},
		{in: "1.5MiB", err: "whole number"},
		{in: "", err: "whole number"},
		{in: "99999999999999999999", err: "too large"},
		{in: "9999999999GiB", err: "too large"},
	} {
		got, err := parseSize(tt.in)
		check(t, tt.in, got, tt.want, err, tt.err)
	}
}

func check[T comparable](t *testing.T, in string, got, want T, err error, part string) {
	t.Helper()
	switch {
	case part == "" && (err != nil || got != want):
		t.Errorf("%q: got %v, %v; want %v", in, got, err, want)
	case part != "" && (err == nil || !strings.Contains(err.Error(), part)):
		t.Errorf("%q: got %v, %v; want an error with %q", in, got, err, part)
	}
}

func TestChecks(t *testing.T) {
	for _, tt := range []struct {
		name  string
		check func(string) error
		good  []string
		bad   []string
	}{
		{"address", checkAddress,
			[]string{"127.0.0.1:7717", "[::1]:0", "localhost:80", ":80"},
			[]string{"", "127.0.0.1", "x:http", "x:70000", "x:080", "::1:80"}},
		{"origin", checkOrigin,
			[]string{"*", "https://a.example", "http://localhost:3000", "vscode-webview://abc"},
			[]string{"", "a.example", "https://a.example/", "https://u@a.example", "https://a.example?x"}},
		{"host", checkHost,
			[]string{"*", "a.example", "a.example:80", "[::1]:80", "10.0.0.1"},
			[]string{"", "http://a.example", "a.example/x", "u@a.example"}},
		{"glob", checkGlob,
			[]string{"*", "read_*", "[a-z]?", `\*`},
			[]string{"", "[", `\`, "[z-"}},
	} {
		for _, s := range tt.good {
			if err := tt.check(s); err != nil {
				t.Errorf("%s %q: %v", tt.name, s, err)
			}
		}
		for _, s := range tt.bad {
			if tt.check(s) == nil {
				t.Errorf("%s %q: no error", tt.name, s)
			}
		}
	}
	for address, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true, "[::ffff:127.0.0.1]:1": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "example.com:1": false, "bad": false,
	} {
		if loopback(address) != want {
			t.Errorf("loopback(%q) is not %v", address, want)
		}
	}
}

func TestRedact(t *testing.T) {
	s := &secrets{}
	for _, text := range []string{"tok", "a-long-secret", "a-long-secret-and-more", "with \"quotes\"\n", "x", "ab", "/root"} {
		s.add(text)
	}
	for in, want := range map[string]string{
		"":                               "",
		"the token is tok, not stock":    "the token is (sensitive), not stock",
		"a-long-secret-and-more":         "(sensitive)",
		"xa-long-secretx":                "x(sensitive)x",
		`got "with \"quotes\"\n" there`:  `got "(sensitive)" there`,
		"x and ab stay":                  "x and ab stay",
		"open /root/.npmrc or /rootless": "open (sensitive)/.npmrc or /rootless",
		"tok tok":                        "(sensitive) (sensitive)",
	} {
		if got := s.redact(in); got != want {
			t.Errorf("redact(%q) = %q, want %q", in, got, want)
		}
	}
	var none *secrets
	if none.redact("tok") != "tok" {
		t.Error("a nil set redacts")
	}
}

// A secret is recognised in whatever form it comes back.
func TestRedactForms(t *testing.T) {
	s := &secrets{}
	key := "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END KEY-----\n"
	for _, text := range []string{"p@ss w/rd<&>\"é", "Basic bWU6aHVudGVyMg==", "Bearer abcdef123", key} {
		s.add(text)
	}
	for in, leak := range map[string]string{
		"https://h/?t=p%40ss+w%2Frd%3C%26%3E%22%C3%A9&x":                                      "ss+w",
		"https://h/p@ss%20w%2Frd%3C&%3E%22%C3%A9/x":                                           "ss%20",
		"https://me:p%40ss%20w%2Frd%3C&%3E%22%C3%A9@h/":                                       "ss%20",
		"https://h/?t=p%40ss+w%2frd%3c%26%3e%22%c3%a9":                                        "ss+w",
		`{"t":"p@ss w/rd\u003c\u0026\u003e\"é"}`:                                              "p@ss",
		`{"t":"p@ss w/rd<&>\"é"}`:                                                             "p@ss",
		`{"t":"p@ss w/rd<&>\"\u00e9"}`:                                                        "p@ss",
		"login as me with hunter2 failed":                                                     "hunter2",
		"header bWU6aHVudGVyMg== is wrong":                                                    "aHVudGVy",
		"no such token: abcdef123.":                                                           "abcdef",
		"line 2: MIIEvQIBADANBgkqhkiG9w0BAQEFAASC":                                            "MIIE",
		"a line that ends with p@ss w…":                                                       "p@ss",
		"…/rd<&>\"é is how it goes on":                                                        "rd<&>",
		"Basic " + base64.StdEncoding.EncodeToString([]byte("somebody:p@ss w/rd<&>\"é")):      "HNzIHcvcm",
		"Basic " + base64.StdEncoding.EncodeToString([]byte("someone:p@ss w/rd<&>\"é:x")):     "c3Mgdy9y",
		"Basic " + base64.RawURLEncoding.EncodeToString([]byte("some:p@ss w/rd<&>\"é, more")): "BzcyB3L3",
	} {
		if got := s.redact(in); strings.Contains(got, leak) || !strings.Contains(got, hidden) {
			t.Errorf("redact(%q) = %q", in, got)
		}
	}
	for _, plain := range []string{"Basic and Bearer are schemes", "cut off here…", "…and here", "somebody"} {
		if got := s.redact(plain); got != plain {
			t.Errorf("redact(%q) = %q", plain, got)
		}
	}
}
