package httpconn

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
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
	data := make([]byte, 0, 4096)
	for {
		if len(data) > limit {
			return nil, ErrOversize
		}
		if len(data) == cap(data) {
			data = slices.Grow(data, len(data)) // doubles: append alone grows large slices by a quarter
		}
		n, err := resp.Body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err == io.EOF {
			if len(data) > limit {
				return nil, ErrOversize
			}
			return data, nil
		}
		if err != nil {
			return data, err
		}
	}
}

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
