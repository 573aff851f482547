package httpconn

import (
	"encoding/base64"
	"strings"
)

// The form that a header value takes when the text itself would be unsafe in
// a header, MCP 2026-07-28, "Streamable HTTP" (SEP-2243).
const (
	encodedPrefix = "=?base64?"
	encodedSuffix = "?="
)

// HeaderValue returns text as a header value: as it is if it is printable
// ASCII, neither padded with blanks nor in the encoded form itself; encoded
// otherwise.
func HeaderValue(text string) string {
	if safe(text) {
		return text
	}
	return encodedPrefix + base64.StdEncoding.EncodeToString([]byte(text)) + encodedSuffix
}

func safe(text string) bool {
	for i := range len(text) {
		if text[i] < 0x20 || text[i] > 0x7e {
			return false
		}
	}
	return strings.Trim(text, " ") == text &&
		!(strings.HasPrefix(text, encodedPrefix) && strings.HasSuffix(text, encodedSuffix))
}

// token reports whether name is a header's field name (RFC 9110 section 5.1).
func token(name string) bool {
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return name != ""
}
