package admin

import "sync"

// A Feed keeps the latest of what is added to it, up to a number, and wakes
// those who follow it. Whoever is too slow misses the oldest: nothing queues
// up for anybody. All methods may be called concurrently.
type Feed[T any] struct {
	mu    sync.Mutex
	items []T // a ring: the item with number n is at (n-1) % cap
	last  uint64
	more  chan struct{} // closed when something is added; nil: nobody waits
}

// NewFeed returns a feed that keeps n items.
func NewFeed[T any](n int) *Feed[T] { return &Feed[T]{items: make([]T, 0, n)} }

// Add adds the item that build makes of its number; numbers begin with 1.
func (f *Feed[T]) Add(build func(seq uint64) T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	item := build(f.last)
	if len(f.items) < cap(f.items) {
		f.items = append(f.items, item)
	} else {
		f.items[(f.last-1)%uint64(cap(f.items))] = item
	}
	if f.more != nil {
		close(f.more)
		f.more = nil
	}
}

// Since returns the items that are kept of those after a number, the number of
// the last item so far, and a channel that is closed when there are more.
func (f *Feed[T]) Since(after uint64) (items []T, last uint64, more <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := f.last - uint64(len(f.items)) // the number before the oldest
	for n := max(first, min(after, f.last)); n < f.last; n++ {
		items = append(items, f.items[n%uint64(cap(f.items))])
	}
	if f.more == nil {
		f.more = make(chan struct{})
	}
	return items, f.last, f.more
}
