package launcher

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/hermes-host/hermes-host/internal/rawjson"
)

// This file reads a plugin's stderr.
//
// Plugins log there as hclog writes JSON, and go-plugin turns it into the
// host's log again. But its parser panics, in a goroutine where nobody can
// recover, on JSON whose @message, @level or @timestamp is no string, and
// anything may come out of there. So every line that is not certainly in order
// is made one that is.

// A sanitizer is the stderr that go-plugin reads: whole lines of hclog's JSON,
// each of a bounded length. It keeps the last ones for error messages.
type sanitizer struct {
	*readEnd
	in       *bufio.Reader
	pending  []byte // of a line that was read in part
	panicked bool   // the runtime is printing a stack
	tail     tail
}

// maxLine bounds a line, in bytes. It is well below the size at which go-plugin
// cuts lines into pieces.
const maxLine = 16 << 10

func newSanitizer(end *readEnd) *sanitizer {
	return &sanitizer{readEnd: end, in: bufio.NewReaderSize(end, 4<<10)}
}

// Read returns the rest of the current line, or of the next.
func (s *sanitizer) Read(p []byte) (int, error) {
	for len(s.pending) == 0 {
		line, cut, err := s.line()
		if len(line) > 0 {
			s.pending = s.clean(line, cut)
		} else if err != nil {
			return 0, err
		}
	}
	n := copy(p, s.pending)
	s.pending = s.pending[n:]
	return n, nil
}

// line reads a line without its end, and the number of bytes that were cut from
// it.
func (s *sanitizer) line() (line []byte, cut int, err error) {
	for {
		part, err := s.in.ReadSlice('\n')
		keep := min(len(part), maxLine-len(line))
		line = append(line, part[:keep]...)
		cut += len(part) - keep
		if !errors.Is(err, bufio.ErrBufferFull) {
			if cut > 0 && err == nil {
				cut-- // the line end
			}
			if errors.Is(err, io.EOF) || err == nil {
				line = bytes.TrimRight(line, "\r\n")
			}
			return line, cut, err
		}
	}
}

// clean returns the line as hclog would have written it.
func (s *sanitizer) clean(line []byte, cut int) []byte {
	var field [3]json.RawMessage
	wellFormed := cut == 0 && rawjson.Members(line, field[:], "@message", "@level", "@timestamp") == nil
	for _, f := range field {
		wellFormed = wellFormed && len(f) > 0 && f[0] == '"'
	}
	if wellFormed {
		s.panicked = false
		message := rawjson.Unquote(field[0])
		switch rawjson.Unquote(field[1]) {
		case "warn", "error":
			if detail := rawjson.Text(line, "error"); detail != "" {
				message += ": " + detail
			}
			s.tail.add(message)
		}
		return append(line, '\n')
	}
	text := printable(string(line))
	if cut > 0 {
		text += fmt.Sprintf("… (%d bytes more)", cut)
	}
	if strings.HasPrefix(text, "panic: ") || strings.HasPrefix(text, "fatal error: ") {
		s.panicked = true
		s.tail.keepFirst()
	}
	s.tail.add(text)
	level := "debug"
	if s.panicked {
		level = "error"
	}
	return fmt.Appendf(nil, `{"@level":%q,"@message":%s,"@timestamp":%q}`+"\n",
		level, rawjson.Quote(text), time.Now().Format("2006-01-02T15:04:05.000000Z07:00"))
}

// printable replaces what could move a terminal's cursor.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// A tail keeps the end of a plugin's output, or, once it panics, the beginning
// of that.
type tail struct {
	mu    sync.Mutex
	lines []string
	size  int
	first bool
}

const (
	tailLines = 20
	tailBytes = 4 << 10
)

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(line) > tailBytes/4 {
		line = strings.ToValidUTF8(line[:tailBytes/4], "") + "…"
	}
	for len(t.lines) > 0 && (len(t.lines) == tailLines || t.size+len(line) > tailBytes) {
		if t.first {
			return
		}
		t.size -= len(t.lines[0])
		t.lines = t.lines[1:]
	}
	t.lines = append(t.lines, line)
	t.size += len(line)
}

// keepFirst forgets what was said before and keeps what comes first from now.
func (t *tail) keepFirst() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines, t.size, t.first = nil, 0, true
}

// last returns the last n lines, or the first n of a panic.
func (t *tail) last(n int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.lines[max(0, len(t.lines)-n):]
	if t.first {
		lines = t.lines[:min(n, len(t.lines))]
	}
	return append([]string(nil), lines...)
}
