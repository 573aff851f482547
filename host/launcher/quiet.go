package launcher

import (
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
)

// quiet is the logger that go-plugin gets. What go-plugin says itself is for
// debugging only: the launcher reports the same events with more sense. What
// the plugin says comes through the logger that go-plugin makes for it, named
// after the plugin, and keeps its levels.
type quiet struct {
	hclog.Logger
	plugin string
}

func (q *quiet) Info(msg string, args ...any)  { q.Logger.Debug(msg, args...) }
func (q *quiet) Warn(msg string, args ...any)  { q.Logger.Debug(msg, args...) }
func (q *quiet) Error(msg string, args ...any) { q.Logger.Debug(msg, args...) }

func (q *quiet) Named(name string) hclog.Logger {
	if name == q.plugin {
		return q.Logger.Named(name)
	}
	return q
}

// stray logs what a plugin writes to os.Stdout or os.Stderr after its
// handshake, where nothing should be written, in bounded pieces.
type stray struct {
	log  hclog.Logger
	what string
	mu   sync.Mutex
	said int
}

const (
	strayPiece = 1 << 10
	strayTotal = 64 << 10 // a plugin that writes more than that is not heard any more
)

func (s *stray) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(p)
	if s.said > strayTotal {
		return n, nil
	}
	s.said += n
	text := strings.TrimSpace(string(p[:min(n, strayPiece)]))
	if text == "" {
		return n, nil
	}
	s.log.Warn("plugin wrote to "+s.what+", where it should not", "text", printable(text))
	if s.said > strayTotal {
		s.log.Warn("plugin writes too much to " + s.what + "; the rest is dropped")
	}
	return n, nil
}
