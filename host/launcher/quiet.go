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
		return &voice{q.Logger.Named(name)}
	}
	return q
}

// voice is the logger for a plugin's own lines. It drops the fields that the
// host's line has anyway: go-plugin adds the time at which the plugin wrote,
// and hclog the name of the plugin's logger.
type voice struct{ hclog.Logger }

func (v *voice) Trace(msg string, args ...any) { v.Logger.Trace(msg, without(args)...) }
func (v *voice) Debug(msg string, args ...any) { v.Logger.Debug(msg, without(args)...) }
func (v *voice) Info(msg string, args ...any)  { v.Logger.Info(msg, without(args)...) }
func (v *voice) Warn(msg string, args ...any)  { v.Logger.Warn(msg, without(args)...) }
func (v *voice) Error(msg string, args ...any) { v.Logger.Error(msg, without(args)...) }

func without(args []any) []any {
	var kept []any
	for i := 0; i+1 < len(args); i += 2 {
		if key := args[i]; key != "timestamp" && key != "@module" {
			kept = append(kept, key, args[i+1])
		}
	}
	return kept
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
