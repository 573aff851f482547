package launcher

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// FuzzSanitizer checks that whatever a plugin prints, go-plugin reads lines
// that its parser does not panic on.
func FuzzSanitizer(f *testing.F) {
	for _, s := range []string{
		`{"@level":3}`, "text", "\x00\xff", `{"@message":"m","@level":"info","@timestamp":"now"}`, `{"@level":"info","@level":3,"@message":"","@timestamp":""}`,
		"a\nb\r\n\n\nc", "panic: x\ngoroutine 1", `{"\u0040level":3}`, "\"", strings.Repeat("long", maxLine), `{"@message":null}`, `[]`, `{"@message":"a"}x`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := sanitize(t, data)
		lines := bufio.NewScanner(s)
		lines.Buffer(nil, 64<<10) // where go-plugin begins to cut
		for lines.Scan() {
			// As go-plugin's parseJSON does.
			var raw map[string]any
			if err := json.Unmarshal(lines.Bytes(), &raw); err != nil {
				t.Fatalf("%q: %v", lines.Text(), err)
			}
			for _, key := range []string{"@message", "@level", "@timestamp"} {
				if v, ok := raw[key]; ok {
					_ = v.(string)
				}
			}
		}
		if lines.Err() != nil {
			t.Fatal(lines.Err())
		}
	})
}

// sanitize returns a sanitizer of data.
func sanitize(t *testing.T, data []byte) *sanitizer {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = w.Write(data)
		w.Close()
	}()
	t.Cleanup(func() {
		r.Close()
		<-written
	})
	return newSanitizer(newReadEnd(r))
}

func TestSanitizer(t *testing.T) {
	proper := `{"@level":"warn","@message":"m","@timestamp":"2026-01-02T03:04:05.000000Z","error":"e"}`
	in := strings.Join([]string{"plain \x1b[31m", `{"@level":3}`, "", proper, "panic: oh", "goroutine 1 [running]:", proper, "calm"}, "\n")
	s := sanitize(t, []byte(in))
	out, err := io.ReadAll(s)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		var l struct {
			Level   string    `json:"@level"`
			Message string    `json:"@message"`
			Time    time.Time `json:"@timestamp"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if l.Time.IsZero() {
			t.Errorf("no time in %q", line)
		}
		got = append(got, l.Level+" "+l.Message)
	}
	want := []string{"debug plain \ufffd[31m", `debug {"@level":3}`, "warn m", "error panic: oh", "error goroutine 1 [running]:", "warn m", "debug calm"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	// What matters of a panic is its beginning.
	if got := s.tail.last(2); !slices.Equal(got, []string{"panic: oh", "goroutine 1 [running]:"}) {
		t.Errorf("tail = %q", got)
	}
}

func TestTailIsBounded(t *testing.T) {
	var tl tail
	for i := range 100 {
		tl.add(fmt.Sprintf("%d %s", i, strings.Repeat("é", 300)))
	}
	lines := tl.last(tailLines)
	size := 0
	for _, l := range lines {
		size += len(l)
	}
	if len(lines) == 0 || size > tailBytes || !strings.HasPrefix(lines[len(lines)-1], "99 ") {
		t.Errorf("%d lines of %d bytes: %q", len(lines), size, lines)
	}
	var first tail
	first.add("before")
	first.keepFirst()
	for i := range 100 {
		first.add(fmt.Sprint(i))
	}
	if got := first.last(3); !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Errorf("the beginning is %q", got)
	}
}
