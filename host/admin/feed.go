package admin

import (
	"encoding/json"
	"sync"
)

// A Feed keeps the latest of what is added to it, up to a number and a size,
// and wakes those who follow it. Whoever is too slow misses the oldest: nothing
// queues up for anybody. All methods may be called concurrently.
//
// It keeps items as JSON, in one piece of memory. As they are, they would be
// thousands of small objects that live for long, spread over all the memory
// that the host had when it was busiest, and little of that could be given back
// to the system.
type Feed[T any] struct {
	mu    sync.Mutex
	ring  []byte
	start int           // of the oldest item, in ring
	used  int           // bytes from there on, around the end
	sizes []int         // of items: that of number n is at n % len; 0: too large to keep
	first uint64        // the number of the oldest
	next  uint64        // the number of the one to come
	more  chan struct{} // closed when something is added; nil: nobody waits
}

// NewFeed returns a feed that keeps up to n items, in up to size bytes. An item
// that is larger is counted, but not kept.
func NewFeed[T any](n, size int) *Feed[T] {
	return &Feed[T]{ring: make([]byte, size), sizes: make([]int, n), first: 1, next: 1}
}

// Add adds the item that build makes of its number; numbers begin with 1. JSON
// must be able to hold it.
func (f *Feed[T]) Add(build func(seq uint64) T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, err := json.Marshal(build(f.next))
	if err != nil {
		panic("admin: a feed of what JSON can't hold: " + err.Error())
	}
	if len(text) > len(f.ring) {
		text = nil
	}
	for f.next-f.first == uint64(len(f.sizes)) || f.used+len(text) > len(f.ring) {
		size := *f.size(f.first)
		f.start = (f.start + size) % len(f.ring)
		f.used -= size
		f.first++
	}
	end := (f.start + f.used) % len(f.ring)
	copy(f.ring, text[copy(f.ring[end:], text):])
	f.used += len(text)
	*f.size(f.next) = len(text)
	f.next++
	if f.more != nil {
		close(f.more)
		f.more = nil
	}
}

// size is where the size of an item is kept. The caller holds f.mu.
func (f *Feed[T]) size(number uint64) *int { return &f.sizes[number%uint64(len(f.sizes))] }

// Since returns the items that are kept of those after a number, the number of
// the last item so far, and a channel that is closed when there are more.
func (f *Feed[T]) Since(after uint64) (items []T, last uint64, more <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.start
	for n := f.first; n < f.next; n++ {
		size := *f.size(n)
		if n > after && size > 0 {
			items = append(items, f.read(at, size))
		}
		at = (at + size) % len(f.ring)
	}
	if f.more == nil {
		f.more = make(chan struct{})
	}
	return items, f.next - 1, f.more
}

// read decodes the item at a place in ring. The caller holds f.mu.
func (f *Feed[T]) read(at, size int) (item T) {
	text := f.ring[at:min(at+size, len(f.ring))]
	if rest := size - len(text); rest > 0 {
		text = append(text[:len(text):len(text)], f.ring[:rest]...)
	}
	if err := json.Unmarshal(text, &item); err != nil {
		panic("admin: an item of a feed has changed: " + err.Error())
	}
	return item
}
