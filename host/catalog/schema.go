package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hermes-host/hermes-host/internal/rawjson"
)

// What is checked of a schema is what makes clients refuse a whole list:
// inputSchema must be of type "object" (MCP, Tool.inputSchema), and a "type"
// must name a type of JSON Schema (validation 2020-12, section 6.1.1, alike
// since draft 4). Anything else that a client can pass to its model is let
// through: $ref, $defs, unknown keywords, any dialect, any depth.

var schemaTypes = map[string]bool{
	"null": true, "boolean": true, "object": true, "array": true, "number": true, "string": true, "integer": true,
}

// Keywords by what they hold: one schema (or an array of them), or a map of
// schemas.
var (
	schemaHolders = []string{
		"items", "additionalItems", "prefixItems", "contains", "unevaluatedItems", "additionalProperties",
		"propertyNames", "unevaluatedProperties", "not", "if", "then", "else", "allOf", "anyOf", "oneOf",
	}
	schemaMaps = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)

// checkInput checks an inputSchema.
func checkInput(raw json.RawMessage) error {
	if t := rawjson.Text(raw, "type"); t != "object" {
		return errors.New(`its "type" is not "object"`)
	}
	if props := rawjson.Get(raw, "properties"); props != nil && props[0] != '{' {
		return errors.New(`its "properties" is not an object`)
	}
	if req := rawjson.Get(raw, "required"); req != nil {
		names, err := rawjson.Elements(req)
		if err != nil {
			return errors.New(`its "required" is not an array`)
		}
		for _, name := range names {
			if name[0] != '"' {
				return errors.New(`its "required" holds something else than names`)
			}
		}
	}
	return checkSchema(raw)
}

// checkSchema checks the types of a schema and of all schemas within.
func checkSchema(raw json.RawMessage) error {
	var schema any
	if err := json.Unmarshal(raw, &schema); err != nil {
		return err
	}
	if path, err := checkTypes(schema); err != nil {
		slices.Reverse(path)
		return fmt.Errorf("%w (at /%s)", err, clip(strings.Join(path, "/"), 200))
	}
	return nil
}

// checkTypes returns the first error it finds and the way there, last step
// first.
func checkTypes(schema any) ([]string, error) {
	switch s := schema.(type) {
	case []any:
		for i, one := range s {
			if path, err := checkTypes(one); err != nil {
				return append(path, strconv.Itoa(i)), err
			}
		}
	case map[string]any:
		if err := checkType(s["type"]); err != nil {
			return []string{"type"}, err
		}
		for _, key := range schemaHolders {
			if path, err := checkTypes(s[key]); err != nil {
				return append(path, key), err
			}
		}
		for _, key := range schemaMaps {
			all, _ := s[key].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(all)) {
				if path, err := checkTypes(all[name]); err != nil {
					return append(path, name, key), err
				}
			}
		}
	}
	return nil, nil
}

func checkType(t any) error {
	switch t := t.(type) {
	case nil:
		return nil
	case string:
		if schemaTypes[t] {
			return nil
		}
		return fmt.Errorf("%q is no type of JSON Schema", clip(t, 50))
	case []any:
		for _, one := range t {
			if name, ok := one.(string); !ok || !schemaTypes[name] {
				return fmt.Errorf("%v is no type of JSON Schema", clip(fmt.Sprint(one), 50))
			}
		}
		return nil
	}
	return errors.New("a type is neither a string nor an array")
}
