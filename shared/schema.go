package shared

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// attribute is one tagged field of a configuration struct.
type attribute struct {
	name      string
	index     int // of the field
	typ       reflect.Type
	optional  bool
	sensitive bool
	def       json.RawMessage // nil if there is none
	doc       string
}

// object is what a configuration struct says about itself.
type object []attribute

var durationType = reflect.TypeFor[time.Duration]()

// objectOf reads the tags of a struct type. An error is the plugin author's
// mistake.
func objectOf(t reflect.Type) (object, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%v is no struct", t)
	}
	var all object
	seen := map[string]bool{}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("hcl")
		if !f.IsExported() {
			if tagged {
				return nil, fmt.Errorf("field %s of %v has an hcl tag but is not exported", f.Name, t)
			}
			continue
		}
		name, option, _ := strings.Cut(tag, ",")
		switch {
		case name == "":
			return nil, fmt.Errorf(`field %s of %v needs a tag hcl:"name" or hcl:"name,optional"`, f.Name, t)
		case option != "" && option != "optional" && option != "attr":
			return nil, fmt.Errorf("field %s of %v: the hcl option %q is none of a transport block, which has attributes only", f.Name, t, option)
		case seen[name]:
			return nil, fmt.Errorf("%v has two attributes %q", t, name)
		}
		seen[name] = true
		a := attribute{
			name:      name,
			index:     i,
			typ:       f.Type,
			optional:  option == "optional",
			sensitive: f.Tag.Get("sensitive") == "true",
			doc:       f.Tag.Get("doc"),
		}
		if _, err := ctyType(f.Type); err != nil {
			return nil, fmt.Errorf("field %s of %v: %w", f.Name, t, err)
		}
		if text, ok := f.Tag.Lookup("default"); ok {
			var err error
			if a.def, err = defaultJSON(f.Type, text); err != nil {
				return nil, fmt.Errorf("field %s of %v: default %q: %w", f.Name, t, text, err)
			}
			a.optional = true
		}
		all = append(all, a)
	}
	return all, nil
}

// defaultJSON turns the text of a default tag into JSON of the field's type.
func defaultJSON(t reflect.Type, text string) (json.RawMessage, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	raw := json.RawMessage(text)
	if t.Kind() == reflect.String || t == durationType {
		raw, _ = json.Marshal(text) // a string always encodes
	}
	if fault := decodeValue(reflect.New(t).Elem(), raw, nil); fault != nil {
		return nil, fault
	}
	return raw, nil
}

// ctyType returns the type that values of t have in the configuration.
func ctyType(t reflect.Type) (cty.Type, error) {
	if t == durationType {
		return cty.String, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return ctyType(t.Elem())
	case reflect.String:
		return cty.String, nil
	case reflect.Bool:
		return cty.Bool, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64:
		return cty.Number, nil
	case reflect.Slice:
		elem, err := ctyType(t.Elem())
		return cty.List(elem), err
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return cty.NilType, fmt.Errorf("the keys of a map must be strings, not %v", t.Key())
		}
		elem, err := ctyType(t.Elem())
		return cty.Map(elem), err
	case reflect.Struct:
		fields, err := objectOf(t)
		if err != nil {
			return cty.NilType, err
		}
		types := map[string]cty.Type{}
		var optional []string
		for _, f := range fields {
			types[f.name], _ = ctyType(f.typ) // objectOf has checked it
			if f.optional {
				optional = append(optional, f.name)
			}
		}
		return cty.ObjectWithOptionalAttrs(types, optional), nil
	}
	return cty.NilType, fmt.Errorf("a configuration can't hold values of type %v", t)
}

// schema returns o as the contract describes it.
func (o object) schema() ([]*transportpb.Attribute, error) {
	var all []*transportpb.Attribute
	for _, a := range o {
		typ, err := ctyType(a.typ)
		if err != nil {
			return nil, err
		}
		text, err := ctyjson.MarshalType(typ)
		if err != nil {
			return nil, fmt.Errorf("describing attribute %q: %w", a.name, err)
		}
		all = append(all, &transportpb.Attribute{
			Name:      a.name,
			Type:      text,
			Required:  !a.optional,
			Default:   a.def,
			Sensitive: a.sensitive,
			Doc:       a.doc,
		})
	}
	return all, nil
}
