package orphan

import (
	"fmt"
	"testing"
)

func TestBelow(t *testing.T) {
	table := []Process{
		{PID: 5, Parent: 4}, {PID: 2, Parent: 1}, {PID: 3, Parent: 2}, {PID: 4, Parent: 2}, {PID: 9, Parent: 1},
		{PID: 7, Parent: 8}, {PID: 8, Parent: 7}, // seen in the moment in which numbers were used again
	}
	for pid, want := range map[int]string{2: "3 4 5 ", 1: "2 9 3 4 5 ", 5: "", 7: "8 "} {
		got := ""
		for _, p := range Below(table, pid) {
			got += fmt.Sprint(p.PID, " ")
		}
		if got != want {
			t.Errorf("below %d: %q, want %q", pid, got, want)
		}
	}
}
