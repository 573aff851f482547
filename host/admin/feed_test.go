package admin

import (
	"slices"
	"testing"
)

// TestFeed keeps the latest items and tells of more.
func TestFeed(t *testing.T) {
	f := NewFeed[uint64](3)
	since := func(after uint64, want ...uint64) <-chan struct{} {
		t.Helper()
		items, last, more := f.Since(after)
		if !slices.Equal(items, want) {
			t.Errorf("after %d: %v, want %v", after, items, want)
		}
		if len(want) > 0 && last != want[len(want)-1] {
			t.Errorf("after %d: the last is %d", after, last)
		}
		return more
	}
	add := func() { f.Add(func(seq uint64) uint64 { return seq }) }
	more := since(0)
	select {
	case <-more:
		t.Error("woken for nothing")
	default:
	}
	add()
	<-more
	since(0, 1)
	add()
	since(0, 1, 2)
	since(1, 2)
	for range 3 {
		add()
	}
	since(0, 3, 4, 5)
	since(4, 5)
	since(5)
	since(99) // of another host's feed
}

// TestNear suggests what may have been meant, and nothing far off.
func TestNear(t *testing.T) {
	known := []string{"files", "tickets", "files-old", "db"}
	for name, want := range map[string][]string{
		"fles": {"files"}, "FILES": {"files", "files-old"}, "ticket": {"tickets"}, "dv": {"db"}, "calendar": {}, "": {},
	} {
		if got := Near(name, known); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
