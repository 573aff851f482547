package shared

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// Log lines wait in a queue of this length for the host to take them, cut to
// this size.
const (
	logQueue   = 256
	logLineMax = 8 << 10
)

// logs sends a session's log lines to the host, without ever making the
// caller wait.
type logs struct {
	send func(*transportpb.PluginFrame)
	done chan struct{} // closed when the sender has returned

	mu      sync.Mutex
	queue   chan *transportpb.Log
	closed  bool
	dropped int
}

func newLogs(send func(*transportpb.PluginFrame)) *logs {
	l := &logs{send: send, done: make(chan struct{}), queue: make(chan *transportpb.Log, logQueue)}
	go l.run()
	return l
}

func (l *logs) run() {
	defer close(l.done)
	for line := range l.queue {
		l.send(&transportpb.PluginFrame{Frame: &transportpb.PluginFrame_Log{Log: line}})
	}
}

func (l *logs) add(level transportpb.Log_Level, text string, stderr bool) {
	line := &transportpb.Log{Level: level, Message: clip(text, logLineMax), Stderr: stderr}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if l.dropped > 0 && len(l.queue) < cap(l.queue) {
		l.queue <- &transportpb.Log{
			Level:   transportpb.Log_LEVEL_WARN,
			Message: fmt.Sprintf("%d log lines were dropped: they came faster than the host took them", l.dropped),
		}
		l.dropped = 0
	}
	select {
	case l.queue <- line:
	default:
		l.dropped++
	}
}

// flush sends what waits and stops.
func (l *logs) flush() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.queue)
	}
	l.mu.Unlock()
	<-l.done
}

// clip makes text valid UTF-8, as the wire demands, of at most n bytes.
func clip(text string, n int) string {
	if len(text) > n {
		text = text[:n] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// logger returns a logger that writes here.
func (l *logs) logger(level hclog.Level) hclog.Logger {
	log := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Off, Output: io.Discard})
	log.RegisterSink(&sink{logs: l, level: level})
	return log
}

// sink takes an hclog logger's lines.
type sink struct {
	logs  *logs
	level hclog.Level
}

// Accept sends one line, with its arguments as key=value.
func (s *sink) Accept(name string, level hclog.Level, msg string, args ...any) {
	if level < s.level {
		return
	}
	var b strings.Builder
	if name != "" {
		fmt.Fprintf(&b, "%s: ", name)
	}
	b.WriteString(msg)
	for i := 0; i+1 < len(args); i += 2 {
		val := fmt.Sprint(args[i+1])
		if strings.ContainsAny(val, " \t\n\"=") {
			val = fmt.Sprintf("%q", val)
		}
		fmt.Fprintf(&b, " %v=%s", args[i], val)
	}
	s.logs.add(levels[level], b.String(), false)
}

var levels = map[hclog.Level]transportpb.Log_Level{
	hclog.Trace: transportpb.Log_LEVEL_TRACE,
	hclog.Debug: transportpb.Log_LEVEL_DEBUG,
	hclog.Info:  transportpb.Log_LEVEL_INFO,
	hclog.Warn:  transportpb.Log_LEVEL_WARN,
	hclog.Error: transportpb.Log_LEVEL_ERROR,
}
