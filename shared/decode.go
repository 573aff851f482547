package shared

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// A configFault is a value of a configuration that does not fit its field. The
// host has checked the types already, so mostly it is a number out of range or
// a malformed duration. The message never quotes the value, which may be a
// secret.
type configFault struct {
	path    []*transportpb.PathStep
	message string
}

// Error returns the message.
func (f *configFault) Error() string { return f.message }

func (f *configFault) diagnostic() *transportpb.Diagnostic {
	return Diagnostic{Summary: "Invalid value", Detail: f.message, Path: f.path}.proto()
}

// decodeConfig fills the struct that dst points to from a transport block as
// JSON. Absent and null attributes take their defaults.
func decodeConfig(dst any, block json.RawMessage) *configFault {
	if len(block) == 0 {
		block = json.RawMessage("{}")
	}
	return decodeValue(reflect.ValueOf(dst).Elem(), block, nil)
}

func decodeValue(dst reflect.Value, raw json.RawMessage, path []*transportpb.PathStep) *configFault {
	fault := func(format string, args ...any) *configFault {
		return &configFault{path: path, message: fmt.Sprintf(format, args...)}
	}
	if string(raw) == "null" {
		dst.SetZero()
		return nil
	}
	t := dst.Type()
	switch {
	case t == durationType:
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return fault(`must be a duration such as "30s" or "1m30s"`)
		}
		d, err := time.ParseDuration(strings.TrimSpace(text))
		if err != nil || d < 0 {
			return fault(`must be a duration such as "30s" or "1m30s", not negative`)
		}
		dst.SetInt(int64(d))
		return nil
	case t.Kind() == reflect.Pointer:
		dst.Set(reflect.New(t.Elem()))
		return decodeValue(dst.Elem(), raw, path)
	case t.Kind() == reflect.Struct:
		return decodeObject(dst, raw, path)
	case t.Kind() == reflect.Slice:
		elems, err := rawjson.Elements(raw)
		if err != nil {
			return fault("must be a list")
		}
		dst.Set(reflect.MakeSlice(t, len(elems), len(elems)))
		for i, e := range elems {
			if f := decodeValue(dst.Index(i), e, extend(path, Index(i))); f != nil {
				return f
			}
		}
		return nil
	case t.Kind() == reflect.Map:
		dst.Set(reflect.MakeMap(t))
		var inner *configFault
		err := rawjson.Fields(raw, func(key string, val json.RawMessage) bool {
			elem := reflect.New(t.Elem()).Elem()
			inner = decodeValue(elem, val, extend(path, Key(key)))
			dst.SetMapIndex(reflect.ValueOf(key).Convert(t.Key()), elem)
			return inner == nil
		})
		if err != nil {
			return fault("must be a map")
		}
		return inner
	}
	if json.Unmarshal(raw, dst.Addr().Interface()) != nil {
		return fault("must be %s", describeType(t))
	}
	return nil
}

func decodeObject(dst reflect.Value, raw json.RawMessage, path []*transportpb.PathStep) *configFault {
	fields, err := objectOf(dst.Type())
	if err != nil { // Serve has refused such types
		return &configFault{path: path, message: err.Error()}
	}
	given := map[string]json.RawMessage{}
	err = rawjson.Fields(raw, func(key string, val json.RawMessage) bool {
		given[key] = val
		return true
	})
	if err != nil {
		return &configFault{path: path, message: "must be an object"}
	}
	for _, f := range fields {
		at := extend(path, Attr(f.name))
		val := given[f.name]
		delete(given, f.name)
		if val == nil || string(val) == "null" {
			if !f.optional {
				return &configFault{path: at, message: fmt.Sprintf("the attribute %q is required", f.name)}
			}
			if val = f.def; val == nil {
				continue
			}
		}
		if fault := decodeValue(dst.Field(f.index), val, at); fault != nil {
			return fault
		}
	}
	for name := range given {
		return &configFault{path: extend(path, Attr(name)), message: fmt.Sprintf("there is no attribute %q", name)}
	}
	return nil
}

// extend returns a copy of path with one more step.
func extend(path []*transportpb.PathStep, step *transportpb.PathStep) []*transportpb.PathStep {
	return append(slices.Clip(path), step)
}

// describeType says what values of a scalar type look like.
func describeType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	if t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uint64 {
		return fmt.Sprintf("a whole number from 0 to %d", ^uint64(0)>>(64-t.Bits()))
	}
	return fmt.Sprintf("a whole number from %d to %d", int64(-1)<<(t.Bits()-1), ^uint64(0)>>(65-t.Bits()))
}
