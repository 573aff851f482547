package config

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-host/hermes-host/internal/glob"
)

// The textual values of the language: durations, sizes, patterns, names and
// addresses. Each function returns an error whose text says what is wrong and
// what to write, without the value itself, so that it may be shown even when
// the value is secret.

// maxDuration keeps sums and doublings of durations far from overflow.
const maxDuration = 365 * 24 * time.Hour

var bareNumber = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)

// parseDuration reads a duration such as "60s" or "1h30m".
func parseDuration(s string) (time.Duration, error) {
	t := strings.TrimSpace(s)
	if bareNumber.MatchString(t) {
		return 0, fmt.Errorf(`a duration needs a unit: "60s" for seconds, "500ms", "5m", "1h30m"`)
	}
	d, err := time.ParseDuration(t)
	switch {
	case err != nil:
		return 0, fmt.Errorf(`a duration is a number and a unit, such as "500ms", "60s", "5m" or "1h30m"`)
	case d < 0:
		return 0, fmt.Errorf("a duration cannot be negative")
	case d > maxDuration:
		return 0, fmt.Errorf("a duration cannot be longer than a year")
	}
	return d, nil
}

var (
	sizeForm  = regexp.MustCompile(`^([0-9]+)\s*([A-Za-z]*)$`)
	sizeUnits = map[string]int64{
		"": 1, "b": 1,
		"kb": 1e3, "mb": 1e6, "gb": 1e9,
		"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30,
	}
)

// parseSize reads a number of bytes such as "64MiB", "1MB" or "4096".
func parseSize(s string) (int64, error) {
	m := sizeForm.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return 0, fmt.Errorf(`a size is a whole number of bytes with an optional unit, such as "64MiB", "1MB" or 4096`)
	}
	unit, ok := sizeUnits[strings.ToLower(m[2])]
	if !ok {
		if _, ok := sizeUnits[strings.ToLower(m[2])+"ib"]; ok {
			return 0, fmt.Errorf(`write the unit in full: "KiB", "MiB", "GiB" (of 1024) or "KB", "MB", "GB" (of 1000)`)
		}
		return 0, fmt.Errorf(`the unit of a size is one of B, KB, MB, GB (of 1000), KiB, MiB, GiB (of 1024)`)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("the size is too large")
	}
	return n * unit, nil
}

// checkGlob checks a pattern for names.
func checkGlob(s string) error {
	if s == "" {
		return fmt.Errorf(`the pattern is empty; to match everything write "*"`)
	}
	if _, err := glob.Compile(s); err != nil {
		return fmt.Errorf(`the pattern is malformed: * matches any text, ? any character, [a-z] one of a set, a backslash takes the next character literally`)
	}
	return nil
}

// capabilityWords are what the host can declare to a session that clients share.
var capabilityWords = []string{"elicitation.form", "elicitation.url", "sampling", "sampling.tools"}

// checkCapability checks a word for something that the host can declare.
func checkCapability(s string) error {
	switch {
	case slices.Contains(capabilityWords, s):
		return nil
	case s == "roots":
		return fmt.Errorf(`the roots of one client are not those of another, so a session that clients share has none; set session = "client" for servers that need them`)
	}
	return fmt.Errorf("it must be one of %s", strings.Join(capabilityWords, ", "))
}

var (
	serverForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$`)
	prefixForm = regexp.MustCompile(`^[A-Za-z0-9_-]{0,40}$`)
	entryForm  = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
	kindForm   = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)
	envForm    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	sha256Form = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// parseSHA256 reads a SHA-256 in hex, with or without a "sha256:" before it.
func parseSHA256(s string) (string, error) {
	h := strings.ToLower(strings.TrimPrefix(strings.TrimSpace(s), "sha256:"))
	if !sha256Form.MatchString(h) {
		return "", fmt.Errorf("a SHA-256 is 64 hexadecimal digits, as sha256sum prints them")
	}
	return h, nil
}

// checkAddress checks a TCP address to listen on.
func checkAddress(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf(`an address is host:port, such as "127.0.0.1:7717" or "[::1]:7717"`)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return fmt.Errorf("the port is a number from 0 to 65535; 0 takes a free one")
	}
	return nil
}

// loopback reports whether only this machine can reach the address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// checkOrigin checks the value of an Origin header (RFC 6454, section 7), or
// "*" for all.
func checkOrigin(s string) error {
	if s == "*" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return fmt.Errorf(`an origin is scheme://host or scheme://host:port, such as "https://app.example.com", with nothing after it`)
	}
	return nil
}

// checkHost checks the value of a Host header, or "*" for all.
func checkHost(s string) error {
	if s == "*" {
		return nil
	}
	u, err := url.Parse("http://" + s)
	if err != nil || s == "" || u.Host != s {
		return fmt.Errorf(`a host is a name or an address with an optional port, such as "mcp.example.com" or "10.0.0.5:7717"`)
	}
	return nil
}
