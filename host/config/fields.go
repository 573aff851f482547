package config

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Constructors of [attr]: each says what an attribute of a host-owned block
// must be and where its value goes. An absent attribute, or one that is null,
// leaves the default in place.

// shown returns a value for messages: quoted, or hidden if it is secret.
func shown(s string, isSecret bool) string {
	if isSecret {
		return "This value"
	}
	return fmt.Sprintf("%q", s)
}

// boolean is true or false.
func boolean(name string, dst *bool) attr {
	return attr{name, func(d *decoder, a *hcl.Attribute) {
		if v, _, ok := d.as(a, cty.Bool); ok {
			*dst = v.True()
		}
	}}
}

// text is a string that check accepts; its error says what to write. A nil
// check accepts all.
func text(name string, dst *string, check func(string) error) attr {
	return attr{name, func(d *decoder, a *hcl.Attribute) {
		v, isSecret, ok := d.as(a, cty.String)
		if !ok {
			return
		}
		if check != nil {
			if err := check(v.AsString()); err != nil {
				d.fail(a.Expr.Range(), "Invalid value", "%s does not suit %q: %s.", shown(v.AsString(), isSecret), name, err)
				return
			}
		}
		*dst = v.AsString()
	}}
}

// secretText is a string that is never shown, however it is written.
func secretText(name string, dst *string, check func(string) error) attr {
	return attr{name, func(d *decoder, a *hcl.Attribute) {
		d.src.hide(a.Expr)
		v, _, ok := d.as(a, cty.String)
		if !ok {
			return
		}
		d.src.secrets.addLeaves(v)
		if err := check(v.AsString()); err != nil {
			d.fail(a.Expr.Range(), "Invalid value", "%s does not suit %q: %s.", shown("", true), name, err)
			return
		}
		*dst = v.AsString()
	}}
}

// oneOf is one of a few words.
func oneOf(name string, dst *string, words ...string) attr {
	return text(name, dst, func(s string) error {
		if slices.Contains(words, s) {
			return nil
		}
		return fmt.Errorf("it must be one of %s", strings.Join(words, ", "))
	})
}

// count is a whole number within bounds.
func count(name string, dst *int, low, high int) attr {
	return attr{name, func(d *decoder, a *hcl.Attribute) {
		v, _, ok := d.as(a, cty.Number)
		if !ok {
			return
		}
		n, acc := v.AsBigFloat().Int64()
		if acc != big.Exact || n < int64(low) || n > int64(high) {
			d.fail(a.Expr.Range(), "Invalid value", "%q must be a whole number from %d to %d.", name, low, high)
			return
		}
		*dst = int(n)
	}}
}

// duration is a duration of at least low.
func duration(name string, dst *time.Duration, low time.Duration) attr {
	return attr{name, func(d *decoder, a *hcl.Attribute) {
		v, isSecret, ok := d.as(a, cty.DynamicPseudoType)
		if !ok {
			return
		}
		if v.Type() == cty.Number {
			hint := `"60s"`
			if !isSecret {
				hint = fmt.Sprintf("%q", strings.TrimPrefix(v.AsBigFloat().Text('f', -1), "-")+"s")
			}
			d.fail(a.Expr.Range(), "Invalid duration", "%q needs a duration with a unit, in quotes: %s if seconds are meant.", name, hint)
			return
		}
		if v.Type() != cty.String {
			d.fail(a.Expr.Range(), "Invalid duration", `%q needs a duration in quotes, such as "60s".`, name)
			return
		}
		t, err := parseDuration(v.AsString())
		if err == nil && t < low {
			err = fmt.Errorf("it must be at least %s", low)
		}
		if err != nil {
			d.fail(a.Expr.Range(), "Invalid duration", "%s does not suit %q: %s.", shown(v.AsString(), isSecret), name, err)
			return
		}
		*dst = t
	}}
}

// size is a number of bytes within bounds, as a number or a text with a unit.
func size(name string, dst *int64, low, high int64) attr {
	return attr{name, func(d *decoder, a *hcl.Attribute) {
		v, isSecret, ok := d.as(a, cty.DynamicPseudoType)
		if !ok {
			return
		}
		var n int64
		var err error
		switch v.Type() {
		case cty.String:
			n, err = parseSize(v.AsString())
		case cty.Number:
			i, acc := v.AsBigFloat().Int64()
			if n = i; acc != big.Exact {
				err = fmt.Errorf("a size is a whole number of bytes")
			}
		default:
			err = fmt.Errorf(`a size is a text such as "64MiB", or a number of bytes`)
		}
		if err == nil && (n < low || n > high) {
			err = fmt.Errorf("it must be from %s to %s", sizeText(low), sizeText(high))
		}
		if err != nil {
			value := "This value"
			if v.Type() == cty.String {
				value = shown(v.AsString(), isSecret)
			}
			d.fail(a.Expr.Range(), "Invalid size", "%s does not suit %q: %s.", value, name, err)
			return
		}
		*dst = n
	}}
}

// sizeText returns a size as people write it.
func sizeText(n int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.size && n%u.size == 0 {
			return fmt.Sprintf("%d%s", n/u.size, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// texts is a list of strings that check accepts.
func texts(name string, dst *[]string, check func(string) error) attr {
	return attr{name, func(d *decoder, a *hcl.Attribute) {
		v, isSecret, ok := d.as(a, cty.List(cty.String))
		if !ok {
			return
		}
		out := []string{}
		for i, e := range elements(v) {
			at := walk(a.Expr, []any{i}, nil).Range()
			if e.IsNull() {
				d.fail(at, "Invalid value", "An element of %q is null; leave it out.", name)
				continue
			}
			if check != nil {
				if err := check(e.AsString()); err != nil {
					d.fail(at, "Invalid value", "%s does not suit %q: %s.", shown(e.AsString(), isSecret), name, err)
					continue
				}
			}
			out = append(out, e.AsString())
		}
		*dst = out
	}}
}

// elements returns the elements of a list.
func elements(v cty.Value) []cty.Value {
	if v.LengthInt() == 0 {
		return nil
	}
	return v.AsValueSlice()
}

// pairs is a map of strings; check sees each key and value.
func pairs(name string, dst *map[string]string, check func(key, value string) error) attr {
	return attr{name, func(d *decoder, a *hcl.Attribute) {
		v, isSecret, ok := d.as(a, cty.Map(cty.String))
		if !ok {
			return
		}
		out := map[string]string{}
		for it := v.ElementIterator(); it.Next(); {
			k, e := it.Element()
			if e.IsNull() {
				continue
			}
			if err := check(k.AsString(), e.AsString()); err != nil {
				key := k.AsString()
				if isSecret {
					key = hidden
				}
				d.fail(walk(a.Expr, []any{k.AsString()}, d.ctx).Range(), "Invalid value", "The entry %q of %q is not valid: %s.", key, name, err)
				continue
			}
			out[k.AsString()] = e.AsString()
		}
		*dst = out
	}}
}

// first is an attribute that notes in at, if that is nil, that it was written.
func first(a attr, at **hcl.Attribute) attr {
	return attr{a.name, func(d *decoder, written *hcl.Attribute) {
		if *at == nil {
			*at = written
		}
		a.set(d, written)
	}}
}

// misplaced is an attribute that belongs elsewhere, as advice says.
func misplaced(name, advice string) attr {
	return attr{name, func(d *decoder, a *hcl.Attribute) {
		d.fail(a.NameRange, "Misplaced argument", "%s", advice)
	}}
}

// maxCount is the bound of numbers that need none of their own.
const maxCount = math.MaxInt32
