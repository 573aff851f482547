package shared

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// What one session learns of its server spares later ones a detour: a process
// that dies of a question it does not know, five seconds of silence, a request
// to an address that is another's. The host keeps it, since the plugin's
// process may end with the session. See OpenSession.learnt.

// Bounds of what is remembered and advised, in bytes.
const (
	maxRemembered = 1 << 10
	maxAdvice     = 1 << 10
)

// The two handshakes of MCP.
const (
	byInitialize = "initialize"
	byDiscover   = "discover"
)

// memory is the content of OpenSession.learnt and SessionInit.learnt.
type memory struct {
	// Begin is the handshake to begin with, empty for the usual one: the
	// other costs a connection.
	Begin string `json:"begin,omitempty"`
	// Doubt says that server/discover got no answer, from a server that may
	// just have been slow.
	Doubt bool `json:"doubt,omitempty"`
	// Versions are what the server has named after it refused another in
	// initialize.
	Versions []string `json:"versions,omitempty"`
	// Conn is what the plugin had remembered.
	Conn string `json:"conn,omitempty"`
	// Server is the digest of the serverInfo that came with the above. A
	// server of another version is asked anew.
	Server string `json:"server,omitempty"`
}

// recall reads what the host has kept. What another version of the kit wrote
// may make no sense, and is as good as nothing.
func recall(learnt []byte) memory {
	var m memory
	if json.Unmarshal(learnt, &m) != nil || m.Begin != "" && m.Begin != byInitialize && m.Begin != byDiscover {
		return memory{}
	}
	m.Versions = spoken(m.Versions)
	return m
}

// spoken returns those of the versions that the kit can offer in initialize,
// newest first.
func spoken(versions []string) []string {
	var known []string
	for _, v := range initializeVersions {
		if slices.Contains(versions, v) {
			known = append(known, v)
		}
	}
	return known
}

// of returns the memory as far as it concerns the server that has introduced
// itself so.
func (m memory) of(serverInfo []byte) memory {
	if m.Server == digest(serverInfo) {
		return m
	}
	return memory{}
}

func digest(serverInfo []byte) string {
	sum := sha256.Sum256(serverInfo)
	return hex.EncodeToString(sum[:8])
}

// learnt returns the memory for the host, nil if it is what the host has.
func (m memory) learnt(was []byte) []byte {
	text := []byte{}
	if m.Begin != "" || m.Doubt || m.Versions != nil || m.Conn != "" {
		text, _ = json.Marshal(m) // strings alone: it can't fail
	}
	if bytes.Equal(text, was) {
		return nil
	}
	return text
}

// notes are what a plugin says of a server while a session begins.
type notes struct {
	mu         sync.Mutex
	remembered string
	advice     string
}

// Remembered returns what [Session.Remember] was given last: in this session,
// or else in an earlier one with the same server and configuration. Empty:
// nothing, or it was forgotten. It is advice: the server may have changed, so
// what it rules out must still be tried when it turns out wrong.
func (s Session) Remembered() string {
	if s.notes == nil {
		return ""
	}
	s.notes.mu.Lock()
	defer s.notes.mu.Unlock()
	return s.notes.remembered
}

// Remember keeps what the plugin has learnt of the server for later sessions,
// whatever process they are in. Empty text forgets. It counts once the
// handshake is complete; calls after that have no effect. Texts over 1 KiB are
// not kept.
func (s Session) Remember(what string) {
	if s.notes == nil || len(what) > maxRemembered {
		return
	}
	s.notes.mu.Lock()
	defer s.notes.mu.Unlock()
	s.notes.remembered = what
}

// Advise tells the person who configured the server what to change, though it
// works as it is: a sentence without secrets that the host's status shows while
// it applies. To be called during Dial.
func (s Session) Advise(text string) {
	if s.notes == nil {
		return
	}
	s.notes.mu.Lock()
	defer s.notes.mu.Unlock()
	s.notes.advice = cutText(text, maxAdvice)
}

// cutText shortens text to n bytes, between runes.
func cutText(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// note adds to init what the host should keep: what the handshake has found
// out, and what the plugin has said.
func (h *handshake) note(init *transportpb.SessionInit, m memory) {
	n := h.s.about.notes
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.remembered != h.s.was.Conn {
		m.Conn = n.remembered // else it is as old as the rest
	}
	m.Server = digest(init.ServerInfo)
	init.Learnt = m.learnt(h.s.open.Learnt)
	init.Advice = n.advice
}
