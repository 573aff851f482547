package httpconn

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
)

// ErrOversize says that a message is over the session's limit.
var ErrOversize = errors.New("the message is over the limit")

// ReadBody reads a response's body of at most limit bytes. It gives
// ErrOversize for a longer one, of which the rest stays unread.
func ReadBody(resp *http.Response, limit int) ([]byte, error) {
	if resp.ContentLength > int64(limit) {
		return nil, ErrOversize
	}
	if resp.ContentLength >= 0 {
		data := make([]byte, resp.ContentLength)
		_, err := io.ReadFull(resp.Body, data)
		return data, err
	}
	scratch, _ := scratches.Get().(*bytes.Buffer)
	if scratch == nil {
		scratch = new(bytes.Buffer)
	}
	_, err := scratch.ReadFrom(io.LimitReader(resp.Body, int64(limit)+1))
	oversize := scratch.Len() > limit
	var data []byte
	if !oversize {
		data = bytes.Clone(scratch.Bytes())
	}
	if scratch.Cap() <= maxScratch {
		scratch.Reset()
		scratches.Put(scratch)
	}
	if oversize {
		return nil, ErrOversize
	}
	return data, err
}

// scratches are buffers for bodies of unknown length. A result of a megabyte
// would otherwise outgrow its buffer eight times over, and each of those costs
// more than reading it.
var scratches sync.Pool

// maxScratch is the largest one that is kept, in bytes.
const maxScratch = 4 << 20

// MediaType returns a response's media type without parameters, lower case.
func MediaType(resp *http.Response) string {
	value := resp.Header.Get("Content-Type")
	switch value { // nearly always one of these
	case "application/json", "text/event-stream":
		return value
	}
	if media, _, err := mime.ParseMediaType(value); err == nil {
		return media
	}
	media, _, _ := strings.Cut(value, ";")
	return strings.ToLower(strings.TrimSpace(media))
}
