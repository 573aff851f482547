package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/hermes-host/hermes-host/internal/rawjson"
)

// checkMarks checks the marks of an inputSchema that say which arguments are
// mirrored in header fields. Clients must not use tools whose marks are wrong
// (SEP-2243), and the host is the client that makes the fields.
func checkMarks(schema json.RawMessage) error {
	if !bytes.Contains(schema, []byte(`"x-mcp-header"`)) {
		return nil
	}
	return checkMarksIn(schema, map[string]bool{})
}

func checkMarksIn(schema json.RawMessage, seen map[string]bool) error {
	var wrong error
	err := rawjson.Fields(rawjson.Get(schema, "properties"), func(name string, prop json.RawMessage) bool {
		if prop[0] != '{' {
			return true
		}
		if mark := rawjson.Get(prop, "x-mcp-header"); mark != nil {
			if wrong = checkMark(mark, rawjson.Text(prop, "type"), seen); wrong != nil {
				wrong = fmt.Errorf("the x-mcp-header of %q %w", clip(name, 100), wrong)
				return false
			}
		}
		if rawjson.Get(prop, "properties") != nil {
			wrong = checkMarksIn(prop, seen)
		}
		return wrong == nil
	})
	if wrong != nil {
		return wrong
	}
	if err != nil && rawjson.Get(schema, "properties") != nil {
		return err
	}
	return nil
}

func checkMark(mark json.RawMessage, typ string, seen map[string]bool) error {
	field := rawjson.Unquote(mark)
	switch {
	case typ != "string" && typ != "integer" && typ != "boolean":
		return errors.New("is not at a string, an integer or a boolean")
	case mark[0] != '"' || field == "" || strings.ContainsFunc(field, notToken):
		return fmt.Errorf("is %s, which is no name of a header field", clip(string(mark), 100))
	case seen[strings.ToLower(field)]:
		return fmt.Errorf("is %s, which another one is already", clip(string(mark), 100))
	}
	seen[strings.ToLower(field)] = true
	return nil
}

// notToken reports whether a character can't be in the name of a header field
// (RFC 9110, section 5.6.2).
func notToken(c rune) bool {
	switch {
	case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		return false
	}
	return !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
}
