package rawjson

import (
	"encoding/json"
	"slices"
)

// Fields calls visit with each member of an object in the order of the text,
// until visit returns false. The whole object is validated either way.
func Fields(obj []byte, visit func(key string, val json.RawMessage) bool) error {
	return object(obj, func(k, v span) bool {
		return visit(Unquote(obj[k.from:k.to]), obj[v.from:v.to:v.to])
	})
}

// Elements returns the elements of an array.
func Elements(arr []byte) ([]json.RawMessage, error) {
	i := space(arr, 0)
	if i >= len(arr) || arr[i] != '[' {
		return nil, syntax(i, "expected an array")
	}
	var all []json.RawMessage
	i, err := elements(arr, i, 0, func(v span) { all = append(all, arr[v.from:v.to:v.to]) })
	if err != nil {
		return nil, err
	}
	if i = space(arr, i); i != len(arr) {
		return nil, syntax(i, "text after the array")
	}
	return all, nil
}

// Members finds several members of an object in one scan: out[i] is the value
// of names[i], nil if it is absent. Of members of the same name the last
// counts, as in encoding/json.
func Members(obj []byte, out []json.RawMessage, names ...string) error {
	clear(out)
	return object(obj, func(k, v span) bool {
		for i, name := range names {
			if is(obj[k.from:k.to], name) {
				out[i] = obj[v.from:v.to:v.to]
			}
		}
		return true
	})
}

// Get returns the value at a path of member names, nil if there is none or if
// obj is no object.
func Get(obj []byte, path ...string) json.RawMessage {
	cur := json.RawMessage(obj)
	for _, name := range path {
		var one [1]json.RawMessage
		if Members(cur, one[:], name) != nil || one[0] == nil {
			return nil
		}
		cur = one[0]
	}
	return cur
}

// Text returns the string at a path, "" if there is none.
func Text(obj []byte, path ...string) string { return Unquote(Get(obj, path...)) }

// Set returns a copy of obj in which the member at path has the value val.
// Other bytes stay as they were; a member that was not there is added at the
// end, and missing objects on the way are made. It returns an error if obj, or
// a value on the way, is no object. An obj of length 0 counts as {}.
func Set(obj []byte, val []byte, path ...string) (json.RawMessage, error) {
	if len(obj) == 0 {
		obj = []byte("{}")
	}
	at, last, err := find(obj, path[0])
	if err != nil {
		return nil, err
	}
	if len(path) > 1 {
		inner := obj[at.from:at.to]
		if val, err = Set(inner, val, path[1:]...); err != nil {
			return nil, err
		}
	}
	if at.to > 0 {
		return slices.Concat(obj[:at.from], val, obj[at.to:]), nil
	}
	member := slices.Concat(Quote(path[0]), []byte(":"), val)
	if last > 0 {
		return slices.Concat(obj[:last], []byte(","), member, obj[last:]), nil
	}
	open := space(obj, 0) + 1
	return slices.Concat(obj[:open], member, obj[open:]), nil
}

// Delete returns a copy of obj without the member at path, or obj itself if
// there is none.
func Delete(obj []byte, path ...string) json.RawMessage {
	if len(path) > 1 {
		inner := Get(obj, path[0])
		if inner == nil || Get(inner, path[1:]...) == nil {
			return obj
		}
		out, err := Set(obj, Delete(inner, path[1:]...), path[0])
		if err != nil {
			return obj
		}
		return out
	}
	// Cut [from,to): the member with the comma before it, or after it if it
	// is the first.
	var cut span
	var prev int
	var found, first bool
	err := object(obj, func(k, v span) bool {
		switch {
		case !found && is(obj[k.from:k.to], path[0]):
			found, first = true, prev == 0
			cut = span{prev, v.to}
			if first {
				cut.from = k.from
			}
		case found && first:
			cut.to, first = k.from, false
		}
		prev = v.to
		return true
	})
	if err != nil || !found {
		return obj
	}
	return slices.Concat(obj[:cut.from], obj[cut.to:])
}

// find returns where the value of a member is (zero if it is absent) and where
// the last member ends (0 if there is none).
func find(obj []byte, name string) (at span, last int, err error) {
	err = object(obj, func(k, v span) bool {
		if is(obj[k.from:k.to], name) {
			at = v
		}
		last = v.to
		return true
	})
	return at, last, err
}

func object(b []byte, visit func(k, v span) bool) error {
	i := space(b, 0)
	if i >= len(b) || b[i] != '{' {
		return syntax(i, "expected an object")
	}
	i, err := members(b, i, 0, visit)
	if err != nil {
		return err
	}
	if i = space(b, i); i != len(b) {
		return syntax(i, "text after the object")
	}
	return nil
}
