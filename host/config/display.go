package config

import (
	"encoding/json"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// minLiteral is the least length of a text in a sensitive attribute that is
// looked for in messages although nothing else says that it is secret: among
// environment variables and headers there are many plain words.
const minLiteral = 8

// remember notes the secret texts of a value: those with a mark of their own
// or above them.
func remember(s *secrets, v cty.Value) {
	bare, marks := v.UnmarkDeepWithPaths()
	_ = cty.Walk(bare, func(path cty.Path, v cty.Value) (bool, error) {
		if v.Type() != cty.String || v.IsNull() || !v.IsKnown() {
			return true, nil
		}
		for _, m := range marks {
			// The mark of the whole attribute says the least.
			if path.HasPrefix(m.Path) && (len(m.Path) > 0 || len(v.AsString()) >= minLiteral) {
				s.add(v.AsString())
				break
			}
		}
		return true, nil
	})
}

// visible returns a value as what encoding/json writes for people: secret
// leaves are replaced, keys and structure stay.
func visible(v cty.Value, isSecret bool) any {
	if v.IsMarked() {
		v, _ = v.Unmark()
		isSecret = true
	}
	if v.IsNull() {
		return nil
	}
	ty := v.Type()
	switch {
	case ty.IsObjectType() || ty.IsMapType():
		out := map[string]any{}
		for it := v.ElementIterator(); it.Next(); {
			k, e := it.Element()
			out[k.AsString()] = visible(e, isSecret)
		}
		return out
	case ty.IsTupleType() || ty.IsListType() || ty.IsSetType():
		out := []any{}
		for it := v.ElementIterator(); it.Next(); {
			_, e := it.Element()
			out = append(out, visible(e, isSecret))
		}
		return out
	case isSecret:
		return hidden
	}
	raw, err := ctyjson.Marshal(v, ty)
	if err != nil {
		return hidden
	}
	return json.RawMessage(raw)
}
