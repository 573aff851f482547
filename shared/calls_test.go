package shared

import (
	"encoding/json"
	"testing"
)

// Answers are matched however a server spells a whole number.
func TestAnswerIDs(t *testing.T) {
	for raw, want := range map[string]uint64{
		`27`: 27, `"27"`: 27, `27.0`: 27, `2.7e1`: 27, `"27.0"`: 27, `18446744073709551615`: 0,
		`0`: 0, `99999999999999999999999`: 0, `27.5`: 0, `-27`: 0, `""`: 0, `"x"`: 0, `.5`: 0, `1e400`: 0, `1e17`: 0, ``: 0, `9007199254740993`: 9007199254740993,
	} {
		if got := callID(json.RawMessage(raw)); got != want {
			t.Errorf("callID(%s) = %d, want %d", raw, got, want)
		}
	}
	for _, same := range [][2]string{{`0`, `0`}, {`0.0`, `0`}, {`"0"`, `0`}, {`"discover"`, `"discover"`}} {
		if !sameID(json.RawMessage(same[0]), json.RawMessage(same[1])) {
			t.Errorf("%s is not taken for %s", same[0], same[1])
		}
	}
	for _, other := range [][2]string{{`1`, `0`}, {``, `0`}, {`"x"`, `0`}, {`0`, `"discover"`}} {
		if sameID(json.RawMessage(other[0]), json.RawMessage(other[1])) {
			t.Errorf("%s is taken for %s", other[0], other[1])
		}
	}
}
