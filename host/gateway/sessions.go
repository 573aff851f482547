package gateway

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/hermes-host/hermes-host/host/relay"
)

// minIdle protects a session from making room for a new one right after its
// last request.
const minIdle = time.Minute

// sessions is the table of sessions over HTTP.
type sessions struct {
	g  *Gateway
	mu sync.RWMutex
	by map[string]*legacySession
}

func (t *sessions) init(g *Gateway) {
	t.g = g
	t.by = make(map[string]*legacySession)
}

// open makes a session, nil if there is no room. When the table is full, the
// session that has been idle the longest gives way, for clients that never say
// goodbye. The caller releases the session when its request has been answered.
func (t *sessions) open(name string, e relay.Endpoint, version string, init json.RawMessage) *legacySession {
	s := t.g.newSession(name, e, version, init)
	s.expired = t.remove
	s.refs = 1
	e.Join(s)

	t.mu.Lock()
	var victim *legacySession
	if len(t.by) >= t.g.cfg.MaxSessions {
		if victim = t.longestIdle(); victim == nil {
			t.mu.Unlock()
			s.end(errSessionEvicted)
			return nil
		}
		delete(t.by, victim.id)
	}
	t.by[s.id] = s
	t.mu.Unlock()

	s.mu.Lock()
	if !s.ended { // the gateway may have closed meanwhile
		s.timer = time.AfterFunc(t.g.cfg.SessionIdle, s.expire)
	}
	s.mu.Unlock()
	if victim != nil {
		victim.end(errSessionEvicted)
	}
	t.g.log.Debug("session opened", "session", s.tag(), "version", version, "server", name)
	return s
}

func (t *sessions) longestIdle() *legacySession {
	var oldest *legacySession
	since := time.Now().Add(-minIdle)
	for _, s := range t.by {
		if at, idle := s.idleSince(); idle && at.Before(since) {
			oldest, since = s, at
		}
	}
	return oldest
}

// find returns a session of the endpoint of that name, nil if there is none.
func (t *sessions) find(id, name string) *legacySession {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if s := t.by[id]; s != nil && s.name == name {
		return s
	}
	return nil
}

func (t *sessions) remove(s *legacySession) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.by, s.id)
}

func (t *sessions) count() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.by)
}

func (t *sessions) endAll(cause error) {
	t.endWhere(cause, func(*legacySession) bool { return true })
}

func (t *sessions) endOf(name string) {
	t.endWhere(errServerGone, func(s *legacySession) bool { return s.name == name })
}

func (t *sessions) endWhere(cause error, match func(*legacySession) bool) {
	var ending []*legacySession
	t.mu.Lock()
	for id, s := range t.by {
		if match(s) {
			ending = append(ending, s)
			delete(t.by, id)
		}
	}
	t.mu.Unlock()
	for _, s := range ending {
		s.end(cause)
	}
}
