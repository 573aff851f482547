package catalog

// A Change says that what an endpoint offers has become different.
type Change struct {
	Endpoint                  string // "" is the aggregate
	Tools, Prompts, Resources bool   // Resources covers the templates
}

// A Subscription hears of changes. It is pulled, so that nothing queues up:
// any number of changes between two calls of Changes is one.
type Subscription struct {
	c     *Catalog
	ready chan struct{}
	seen  map[string]sums
}

type sums [kinds]uint64

// Subscribe returns a subscription to changes from now on. One goroutine at a
// time may use it. Close ends it.
func (c *Catalog) Subscribe() *Subscription {
	s := &Subscription{c: c, ready: make(chan struct{}, 1), seen: map[string]sums{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subs[s] = struct{}{}
	for name, e := range c.state.Load().endpoints {
		s.seen[name] = e.View().sums()
	}
	return s
}

// Ready returns a channel that holds a value when there may be something for
// Changes to report.
func (s *Subscription) Ready() <-chan struct{} { return s.ready }

// Changes returns what differs from the time of the last call. An endpoint
// that has gone is not reported, a new one is if it offers anything.
func (s *Subscription) Changes() []Change {
	var all []Change
	endpoints := s.c.state.Load().endpoints
	for name, e := range endpoints {
		now, was := e.View().sums(), s.seen[name]
		if now == was {
			continue
		}
		s.seen[name] = now
		all = append(all, Change{
			Endpoint:  name,
			Tools:     now[Tools] != was[Tools],
			Prompts:   now[Prompts] != was[Prompts],
			Resources: now[Resources] != was[Resources] || now[Templates] != was[Templates],
		})
	}
	for name := range s.seen {
		if endpoints[name] == nil {
			delete(s.seen, name)
		}
	}
	return all
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	delete(s.c.subs, s)
}

// wake never blocks.
func (s *Subscription) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// Sum returns a fingerprint of a list: two views of one endpoint whose sums are
// equal list the same. It is good within this process only.
func (v *View) Sum(kind Kind) uint64 { return v.lists[kind].sum }

func (v *View) sums() sums {
	var s sums
	for kind := range kinds {
		s[kind] = v.lists[kind].sum
	}
	return s
}
