package shared

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

const (
	lineBuffer  = 64 << 10 // what a LineConn reads at a time
	lineKeep    = 4 << 20  // larger buffers are given back after use
	strayMax    = 1 << 10  // how much of a stray line is shown
	brokenGrace = 250 * time.Millisecond
)

// LineOptions are what a LineConn may be told.
type LineOptions struct {
	// MaxMessageBytes is the longest line that is taken in; 0 stands for
	// [MaxMessageBytes]. Of a longer one only the id is looked for, while it
	// streams past, so that the call it answers fails alone. So it is with a
	// line that can't be read.
	MaxMessageBytes int

	// Stray is told of lines that are no JSON-RPC messages and answer nobody,
	// such as what a server prints to its stdout by mistake, cut to 1 KiB. Read calls it. Nil
	// ignores them.
	Stray func(line string)
}

// A LineConn is a [Conn] over a pair of byte streams with one JSON-RPC message
// per line, the framing of MCP's stdio transport. Empty lines, CRLF, byte order
// marks and batches (protocol 2025-03-26) are accepted.
type LineConn struct {
	opts LineOptions

	// Of the reader; Read is not concurrent.
	r       io.Reader
	buf     []byte
	start   int // of the unread part
	scanned int // up to here there is no line end
	end     int // of what has been read
	readErr error
	queue   []Incoming // of the last line, still to be returned

	wmu  sync.Mutex // held during a write
	w    io.Writer
	wbuf []byte

	fmu      sync.Mutex
	writeErr error // the first failure of a write

	closing  sync.Once
	closeErr error
}

// NewLineConn returns a Conn that reads lines from r and writes them to w.
// Close closes those of the two that are an io.Closer, and that must unblock
// their reads and writes.
func NewLineConn(r io.Reader, w io.Writer, o LineOptions) *LineConn {
	if o.MaxMessageBytes <= 0 {
		o.MaxMessageBytes = MaxMessageBytes
	}
	if o.Stray == nil {
		o.Stray = func(string) {}
	}
	return &LineConn{opts: o, r: r, w: w}
}

// Read returns the next message, which aliases a buffer that the next Read
// reuses. At the end of input the error is io.EOF.
func (c *LineConn) Read(context.Context) (Incoming, error) {
	for {
		if len(c.queue) > 0 {
			in := c.queue[0]
			c.queue = c.queue[1:]
			return in, nil
		}
		line, err := c.line()
		if long, ok := errors.AsType[*longLine](err); ok {
			c.tooLong(long)
			continue
		}
		if err != nil {
			if failed := c.failedWrite(); failed != nil && !errors.Is(err, io.EOF) {
				err = failed
			}
			return Incoming{}, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if !jsonrpc.IsBatch(line) {
			if m, err := jsonrpc.Parse(line); err == nil {
				return Incoming{Message: m}, nil
			}
		}
		if Receive(line, c.enqueue) != nil {
			c.stray(line)
		}
	}
}

func (c *LineConn) enqueue(in Incoming) { c.queue = append(c.queue, in) }

func (c *LineConn) stray(line []byte) {
	if len(line) > strayMax {
		line = append(line[:strayMax:strayMax], "…"...)
	}
	c.opts.Stray(string(line))
}

// A longLine is a line over the limit: what was found in it while it streamed
// past. It is the error of LineConn.line.
type longLine struct {
	size    int
	outline jsonrpc.Outline
}

// Error says how long the line was.
func (l *longLine) Error() string { return fmt.Sprintf("a line of %d bytes", l.size) }

// tooLong fails the requests that a line over the limit answers.
func (c *LineConn) tooLong(l *longLine) {
	ids := l.outline.Answers()
	if len(ids) == 0 {
		c.opts.Stray(fmt.Sprintf("a line of %d bytes, over the limit of %d", l.size, c.opts.MaxMessageBytes))
	}
	failure := oversize(c.opts.MaxMessageBytes)
	failure.Message = fmt.Sprintf("the server's answer of %d bytes is larger than the limit of %d", l.size, c.opts.MaxMessageBytes)
	for _, id := range ids {
		c.enqueue(Incoming{Message: jsonrpc.Message{ID: id}, Failure: failure})
	}
}

// line returns the next line without its end, or a *longLine.
func (c *LineConn) line() ([]byte, error) {
	for {
		if i := bytes.IndexByte(c.buf[c.scanned:c.end], '\n'); i >= 0 {
			line := c.buf[c.start : c.scanned+i]
			c.start = c.scanned + i + 1
			c.scanned = c.start
			if len(line) > c.opts.MaxMessageBytes {
				long := &longLine{size: len(line)}
				long.outline.Scan(line)
				return nil, long
			}
			return line, nil
		}
		c.scanned = c.end
		switch {
		case c.end-c.start > c.opts.MaxMessageBytes:
			return nil, c.skip()
		case c.readErr != nil && c.end > c.start:
			line := c.buf[c.start:c.end]
			c.start = c.end
			return line, nil
		case c.readErr != nil:
			return nil, c.readErr
		}
		c.fill()
	}
}

// fill reads once, behind what is there.
func (c *LineConn) fill() {
	pending := c.end - c.start
	if pending == 0 && len(c.buf) > lineKeep {
		c.buf = nil
	}
	if c.buf == nil {
		c.buf = make([]byte, lineBuffer)
		c.start, c.end, c.scanned = 0, 0, 0
	}
	if c.end == len(c.buf) || pending == 0 {
		into := c.buf
		if pending > len(c.buf)/2 {
			into = make([]byte, 2*len(c.buf))
		}
		copy(into, c.buf[c.start:c.end])
		c.buf, c.scanned, c.start, c.end = into, c.scanned-c.start, 0, pending
	}
	n, err := c.r.Read(c.buf[c.end:])
	c.end += n
	c.readErr = err
}

// skip drops the line of which too much is in the buffer already.
func (c *LineConn) skip() error {
	long := &longLine{}
	for {
		part := c.buf[c.start:c.end]
		i := bytes.IndexByte(part, '\n')
		if i >= 0 {
			part = part[:i]
		}
		long.outline.Scan(part)
		long.size += len(part)
		if i >= 0 {
			c.start += i + 1
			c.scanned = c.start
			return long
		}
		c.start, c.end, c.scanned = 0, 0, 0
		if c.readErr != nil {
			return long
		}
		n, err := c.r.Read(c.buf)
		c.end, c.readErr = n, err
	}
}

// Write sends one message, in one call of the underlying writer. A message
// that can't be sent gives a [*WriteError], and ends the connection.
func (c *LineConn) Write(ctx context.Context, m *jsonrpc.Message) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if failed := c.failedWrite(); failed != nil {
		return undelivered(failed)
	}
	line := m.Append(slices.Grow(c.wbuf[:0], m.Size()))
	joinLines(line)
	line = append(line, '\n')
	if c.wbuf = line; cap(line) > lineKeep {
		c.wbuf = nil
	}
	n, err := c.w.Write(line)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("writing to the server: %w", err)
	c.fmu.Lock()
	c.writeErr = err
	c.fmu.Unlock()
	// Answers that the server has sent already may still be read.
	time.AfterFunc(brokenGrace, c.closeReader)
	failed := undelivered(err)
	if n >= len(line)-1 {
		failed.Delivered = transportpb.TransportError_DELIVERED_UNKNOWN
	}
	return failed
}

// joinLines replaces line ends within JSON, which are white space there: a
// string can't hold them.
func joinLines(text []byte) {
	for i := bytes.IndexByte(text, '\n'); i >= 0; {
		text[i] = ' '
		next := bytes.IndexByte(text[i:], '\n')
		if next < 0 {
			return
		}
		i += next
	}
}

func undelivered(err error) *WriteError {
	return &WriteError{
		Reason:    transportpb.TransportError_REASON_CONNECTION,
		Delivered: transportpb.TransportError_DELIVERED_NO,
		Message:   err.Error(),
	}
}

func (c *LineConn) failedWrite() error {
	c.fmu.Lock()
	defer c.fmu.Unlock()
	return c.writeErr
}

// Close closes both streams.
func (c *LineConn) Close(context.Context) error {
	c.closing.Do(func() {
		if w, ok := c.w.(io.Closer); ok {
			c.closeErr = w.Close()
		}
		c.closeReader()
	})
	return c.closeErr
}

func (c *LineConn) closeReader() {
	if r, ok := c.r.(io.Closer); ok {
		_ = r.Close() // a second close, or one at the end of input, tells nothing new
	}
}
