package admin

import (
	"slices"
	"testing"
)

// TestFeed keeps the latest items and tells of more.
func TestFeed(t *testing.T) {
	f := NewFeed[uint64](3, 100)
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

// TestFeedSize keeps no more than fits, whatever the sizes, with items around
// the end of the ring, and none that never fits.
func TestFeedSize(t *testing.T) {
	f := NewFeed[string](100, 10)
	for _, c := range []struct {
		add  string
		want []string
	}{
		{"abc", []string{"abc"}}, // with its quotes, five bytes
		{"de", []string{"abc", "de"}},
		{"f", []string{"de", "f"}},
		{"ghi", []string{"f", "ghi"}}, // around the end
		{"", []string{"f", "ghi", ""}},
		{"12345678", []string{"12345678"}}, // all of it
		{"123456789", []string{"12345678"}},
		{"j", []string{"j"}},
	} {
		f.Add(func(uint64) string { return c.add })
		if items, _, _ := f.Since(0); !slices.Equal(items, c.want) {
			t.Fatalf("after %q: %q, want %q", c.add, items, c.want)
		}
	}
	if _, last, _ := f.Since(0); last != 8 {
		t.Errorf("the last is %d", last)
	}
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
