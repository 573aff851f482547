package rawjson

import "fmt"

// A Span is a part of a text: text[From:To].
type Span struct{ From, To int }

// Of returns the part of text.
func (s Span) Of(text []byte) []byte { return text[s.From:s.To:s.To] }

// Find tells where the values of several members are, in one scan, so that
// they can be replaced in one copy: out[i] is the place of names[i], the zero
// Span if it is absent. Unlike Members it refuses an object that has one of
// them twice, since readers differ in which one counts.
func Find(obj []byte, out []Span, names ...string) error {
	clear(out)
	twice := ""
	err := object(obj, func(k, v span) bool {
		for i, name := range names {
			if is(obj[k.from:k.to], name) {
				if out[i].To > 0 {
					twice = name
				}
				out[i] = Span{v.from, v.to}
			}
		}
		return true
	})
	if err == nil && twice != "" {
		return fmt.Errorf("the member %q occurs twice", twice)
	}
	return err
}
