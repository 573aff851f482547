package config

import (
	"regexp"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// What a function makes can be larger than what it was given, without bounds if
// calls are nested, and by billions if it is asked for so many characters of
// padding. This file keeps that from filling the memory, at a reload that of the
// running host.

// maxPadding is the largest width or precision in a format.
const maxPadding = 9999

// bounded returns a function that fails when its arguments have more than
// maxReferred bytes together, or when grows says that its result would have.
// Grows may be nil.
func bounded(f function.Function, grows func(args []cty.Value) error) function.Function {
	return function.New(&function.Spec{
		Params:   f.Params(),
		VarParam: f.VarParam(),
		Type:     f.ReturnTypeForValues,
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			n := 0
			for _, arg := range args {
				n += weigh(arg)
			}
			if n > maxReferred {
				return cty.NilVal, errTooLarge
			}
			if grows != nil {
				if err := grows(args); err != nil {
					return cty.NilVal, err
				}
			}
			return f.Call(args)
		},
	})
}

var errTooLarge = callErrorf("Value too large", "What the function is given, or what it would make of that, has more than %d MiB.", maxReferred>>20)

// padding matches a verb of format with a width or a precision over maxPadding.
var padding = regexp.MustCompile(`%[^a-zA-Z%]*[0-9]{5,}`)

// formats bounds format and formatlist.
func formats(args []cty.Value) error {
	wide, rows, row := false, 0, 0
	for i, arg := range args {
		arg, _ = arg.UnmarkDeep()
		if i == 0 {
			for _, text := range stringsIn(arg) {
				wide = wide || padding.MatchString(strings.ReplaceAll(text, "%%", ""))
			}
		}
		row += weigh(arg)
		if arg.IsKnown() && !arg.IsNull() && arg.CanIterateElements() {
			rows = max(rows, arg.LengthInt())
		}
	}
	switch {
	case wide:
		return callErrorf("Value too large", "A width or precision in the format is over %d.", maxPadding)
	case rows > 1 && row > maxReferred/rows*8: // what is the same in all rows is counted in each
		return errTooLarge
	}
	return nil
}

// joins bounds join: separator, then lists.
func joins(args []cty.Value) error {
	parts := 0
	for _, arg := range args[1:] {
		parts += len(stringsIn(arg))
	}
	return product(parts, args[0])
}

// replaces bounds replace and regexreplace: text, what to replace, by what. Of a
// pattern no more is known than that it can match between any two characters.
func replaces(args []cty.Value) error {
	text, _ := args[0].UnmarkDeep()
	what, _ := args[1].UnmarkDeep()
	if pattern := what.AsString(); pattern != "" {
		return product(strings.Count(text.AsString(), pattern), args[2])
	}
	return product(len(text.AsString())+1, args[2])
}

func matches(args []cty.Value) error {
	text, _ := args[0].UnmarkDeep()
	return product(len(text.AsString())+1, args[2])
}

// product refuses n times a text.
func product(n int, text cty.Value) error {
	text, _ = text.UnmarkDeep()
	if n > 0 && len(text.AsString()) > maxReferred/n {
		return errTooLarge
	}
	return nil
}

// stringsIn returns the strings in a value.
func stringsIn(v cty.Value) (all []string) {
	v, _ = v.UnmarkDeep()
	_ = cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) {
		if v.IsKnown() && !v.IsNull() && v.Type() == cty.String {
			all = append(all, v.AsString())
		}
		return true, nil
	})
	return all
}
