package httpconn

import (
	"bytes"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// Event is a server-sent event.
type Event struct {
	Name string // "message" if the server names none
	Data []byte // a copy of its own; nil for an event that carries only an id

	// Oversize, if not nil, tells what could be learnt of a JSON-RPC message
	// over the limit; Data is nil then.
	Oversize *jsonrpc.Outline
}

// Events reads a stream of server-sent events as the HTML standard defines
// them (section 9.2.6, "Interpreting an event stream"): lines end with LF, CRLF
// or CR, a blank line ends an event. Lines may have any length; an event's data
// is kept up to the limit.
//
// It is for one goroutine.
type Events struct {
	src   io.Reader
	limit int
	buf   []byte // borrowed from bufs
	r, w  int    // unread bytes are buf[r:w]
	skip  bool   // a CR ended the last line: a LF that follows belongs to it
	err   error  // of src, once it has failed

	lastID string
	retry  time.Duration
}

// maxSmallField bounds the fields event, id and retry; longer ones are ignored.
const maxSmallField = 4096

var bufs = sync.Pool{New: func() any { b := make([]byte, 16<<10); return &b }}

// NewEvents returns a reader of src. Release it after use.
func NewEvents(src io.Reader, limit int) *Events {
	return &Events{src: src, limit: limit, buf: *bufs.Get().(*[]byte)}
}

// Release gives the reader's buffer back. The reader must not be used again;
// events that it returned stay valid.
func (e *Events) Release() {
	if b := e.buf; b != nil {
		e.buf = nil
		bufs.Put(&b)
	}
}

// LastID returns the last event id, "" if there was none.
func (e *Events) LastID() string { return e.lastID }

// Retry returns the reconnection time that the server has set, 0 if none.
func (e *Events) Retry() time.Duration { return e.retry }

// Next returns the next event that has data or sets an id. At the stream's
// orderly end it gives io.EOF, also if that came in the middle of an event; data
// that is whole JSON is still handed out, for servers that forget the last
// blank line. Any other error says that the connection broke.
func (e *Events) Next() (Event, error) {
	event := Event{Name: "message"}
	data := false  // a data field has come
	sawID := false // an id field has come
	for {
		line, whole, err := e.piece()
		if err != nil {
			if err == io.EOF && event.Data != nil && rawjson.Check(event.Data) == nil {
				return event, nil
			}
			return Event{}, err
		}
		if whole && len(line) == 0 {
			if data || sawID {
				return event, nil
			}
			event.Name = "message"
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		if string(field) == "data" {
			if data {
				e.keep(&event, []byte("\n"))
			}
			data = true
			e.keep(&event, value)
			for !whole {
				if line, whole, err = e.piece(); err != nil {
					break // seen again by the next call
				}
				e.keep(&event, line)
			}
			continue
		}
		if !whole { // a comment or a field of absurd length
			for !whole && err == nil {
				_, whole, err = e.piece()
			}
			continue
		}
		if len(value) > maxSmallField {
			continue
		}
		switch string(field) {
		case "event":
			event.Name = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				e.lastID, sawID = string(value), true
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				e.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// keep adds to an event's data, or only follows it once it is over the limit.
func (e *Events) keep(event *Event, part []byte) {
	if event.Oversize != nil {
		event.Oversize.Scan(part)
		return
	}
	if len(event.Data)+len(part) > e.limit {
		event.Oversize = &jsonrpc.Outline{}
		event.Oversize.Scan(event.Data)
		event.Oversize.Scan(part)
		event.Data = nil
		return
	}
	if event.Data != nil && cap(event.Data)-len(event.Data) < len(part) {
		event.Data = slices.Grow(event.Data, max(len(part), len(event.Data)))
	}
	event.Data = append(event.Data, part...)
	if event.Data == nil {
		event.Data = []byte{}
	}
}

// piece returns the next line without its end, or, with whole false, as much
// of a longer line as the buffer holds. It is valid until the next call.
func (e *Events) piece() (line []byte, whole bool, err error) {
	seen := 0 // bytes of buf[r:w] known to hold no line end
	for {
		if e.skip && e.r < e.w {
			if e.skip = false; e.buf[e.r] == '\n' {
				e.r++
			}
		}
		text := e.buf[e.r:e.w]
		end := bytes.IndexByte(text[seen:], '\n')
		look := text[seen:]
		if end >= 0 {
			look = look[:end]
		}
		if cr := bytes.IndexByte(look, '\r'); cr >= 0 {
			end = cr
			e.skip = true
		}
		if end >= 0 {
			end += seen
			e.r += end + 1
			return text[:end], true, nil
		}
		seen = len(text)
		switch {
		case seen == len(e.buf):
			e.r = e.w
			return text, false, nil
		case e.err != nil:
			return nil, false, e.err
		case e.w == len(e.buf):
			e.w = copy(e.buf, text)
			e.r = 0
		}
		e.fill()
	}
}

// fill reads once.
func (e *Events) fill() {
	n, err := e.src.Read(e.buf[e.w:])
	e.w += n
	if err != nil {
		e.err = err
	}
}
