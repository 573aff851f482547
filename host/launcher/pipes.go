package launcher

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
)

// This file has the pipes between the host and a plugin process.

// pipes are made before the process, and their ends closed after.
type pipes struct {
	child []*os.File
	host  []*os.File
}

// in makes a pipe that the child reads and returns the host's end.
func (p *pipes) in() (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.child, p.host = append(p.child, r), append(p.host, w)
	return w, nil
}

// out makes a pipe that the child writes and returns the host's end.
func (p *pipes) out() (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.child, p.host = append(p.child, w), append(p.host, r)
	return r, nil
}

func (p *pipes) closeChild() {
	for _, f := range p.child {
		f.Close()
	}
}

func (p *pipes) closeHost() {
	for _, f := range p.host {
		f.Close()
	}
}

// A readEnd is the host's end of an output pipe. Closing it while it is read
// gives io.EOF, since go-plugin logs anything else as an error.
type readEnd struct {
	file  *os.File
	once  sync.Once
	ended chan struct{} // closed when a Read has failed
}

func newReadEnd(f *os.File) *readEnd {
	return &readEnd{file: f, ended: make(chan struct{})}
}

func (r *readEnd) Read(p []byte) (int, error) {
	n, err := r.file.Read(p)
	if err != nil {
		r.once.Do(func() { close(r.ended) })
		if errors.Is(err, os.ErrClosed) {
			err = io.EOF
		}
	}
	return n, err
}

func (r *readEnd) Close() error { return r.file.Close() }

// A handshake is a plugin's stdout. It keeps the first line, from which one can
// tell what kind of program has been started.
type handshake struct {
	*readEnd
	mu   sync.Mutex
	head []byte
	full bool // head is a whole line, or its beginning
}

const headSize = 512

func (h *handshake) Read(p []byte) (int, error) {
	n, err := h.readEnd.Read(p)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.full && n > 0 {
		h.head = append(h.head, p[:min(n, headSize-len(h.head))]...)
		if i := bytes.IndexByte(h.head, '\n'); i >= 0 {
			h.head, h.full = h.head[:i], true
		}
		h.full = h.full || len(h.head) == headSize
	}
	return n, err
}

// line returns what there is of the first line.
func (h *handshake) line() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(bytes.TrimSpace(h.head))
}
