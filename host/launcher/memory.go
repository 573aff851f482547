package launcher

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// Bounds of what a plugin may leave in a Memory, in bytes.
const (
	maxLearnt = 4 << 10
	maxAdvice = 1 << 10
)

// A Memory is what plugins have learnt of one server under one configuration,
// for its later sessions: which handshake it takes, which transport it really
// speaks. It outlives the plugins' processes. What it holds is opaque to the
// host, but for the advice that goes with it. The zero value knows nothing; all
// sessions with a server may share one. Its methods may be called concurrently,
// those of a nil Memory too.
type Memory struct {
	mu     sync.Mutex
	learnt []byte
	advice string
}

// Advice says what a person should change in the server's configuration though
// it works, empty if nothing: what the latest session has told. It may hold
// secrets of the configuration.
func (m *Memory) Advice() string {
	if m == nil {
		return ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.advice
}

// recall returns what an attempt is to be told.
func (m *Memory) recall() []byte {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.learnt
}

// note keeps what a session tells when it begins.
func (m *Memory) note(init *transportpb.SessionInit) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if learnt := init.Learnt; learnt != nil && len(learnt) <= maxLearnt {
		m.learnt = bytes.Clone(learnt)
	}
	advice := init.GetAdvice()
	m.advice = strings.ToValidUTF8(advice[:min(len(advice), maxAdvice)], "")
}

// Forget forgets all but the advice, which is the live session's: the next
// session begins as if it were the first.
func (m *Memory) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.learnt = nil
}

// mistrust forgets what an attempt was told, since it has come to nothing: the
// plugin, which could have said what has become of it, was still at it when
// the time was over, or died of it. What another session has learnt meanwhile
// stays.
func (m *Memory) mistrust(told []byte) {
	if m == nil || len(told) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if bytes.Equal(m.learnt, told) {
		m.learnt = nil
	}
}

// judge mistrusts what a failed attempt was told unless the attempt came to an
// end of its own.
func (s *stream) judge(ctx context.Context) {
	select {
	case <-s.done:
		if !s.told {
			s.spec.Memory.mistrust(s.learnt)
		}
	default:
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			s.spec.Memory.mistrust(s.learnt)
		}
	}
}
