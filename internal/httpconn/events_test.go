package httpconn

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func all(t *testing.T, r io.Reader, limit int) ([]Event, *Events, error) {
	t.Helper()
	e := NewEvents(r, limit)
	var events []Event
	for {
		event, err := e.Next()
		if err != nil {
			return events, e, err
		}
		events = append(events, event)
	}
}

func TestEvents(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string // name:data
		id   string
	}{
		"plain":                  {"data: a\n\ndata:b\n\n", []string{"message:a", "message:b"}, ""},
		"one blank is stripped":  {"data:  a\n\n", []string{"message: a"}, ""},
		"CRLF":                   {"event: x\r\ndata: a\r\n\r\ndata: b\r\n\r\n", []string{"x:a", "message:b"}, ""},
		"CR":                     {"data: a\r\rdata: b\r\r", []string{"message:a", "message:b"}, ""},
		"several lines":          {"data: a\ndata\ndata: b\n\n", []string{"message:a\n\nb"}, ""},
		"comments and unknowns":  {": ping\n\nfoo: bar\ndata: a\n: x\n\n", []string{"message:a"}, ""},
		"id alone":               {"id: 7\n\n", []string{"message:"}, "7"},
		"id with data":           {"id: 7\ndata: a\n\nid:\ndata: b\n\n", []string{"message:a", "message:b"}, ""},
		"id with NUL":            {"id: 7\x00\ndata: a\n\n", []string{"message:a"}, ""},
		"name without data":      {"event: x\n\ndata: a\n\n", []string{"message:a"}, ""},
		"half an event":          {"data: a\n\ndata: {\"b\":", []string{"message:a"}, ""},
		"last blank line absent": {"data: {\"b\":1}\n", []string{"message:{\"b\":1}"}, ""},
		"empty data":             {"data:\n\n", []string{"message:"}, ""},
	}
	for name, test := range tests {
		for how, wrap := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r },
			"bytes": iotest.OneByteReader,
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				events, e, err := all(t, wrap(strings.NewReader(test.text)), 100)
				if err != io.EOF {
					t.Errorf("ended with %v", err)
				}
				var got []string
				for _, event := range events {
					got = append(got, event.Name+":"+string(event.Data))
				}
				if strings.Join(got, "|") != strings.Join(test.want, "|") {
					t.Errorf("got %q, want %q", got, test.want)
				}
				if e.LastID() != test.id {
					t.Errorf("last id %q, want %q", e.LastID(), test.id)
				}
			})
		}
	}
}

func TestEventsRetry(t *testing.T) {
	_, e, _ := all(t, strings.NewReader("retry: 1500\n\nretry: soon\n\nretry: -3\n\n"), 100)
	if e.Retry() != 1500*time.Millisecond {
		t.Errorf("retry %v", e.Retry())
	}
}

func TestEventsBrokenConnection(t *testing.T) {
	broken := errors.New("reset")
	events, _, err := all(t, io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken)), 100)
	if len(events) != 1 || err != broken {
		t.Errorf("%d events, %v", len(events), err)
	}
}

// TestEventsAnySize crosses the sizes of the buffer, and checks that an event
// stays what it was when the next is read.
func TestEventsAnySize(t *testing.T) {
	var text bytes.Buffer
	sizes := []int{1, 100, 16<<10 - 8, 16<<10 - 7, 16<<10 - 6, 16 << 10, 16<<10 + 1, 100_000, 3 << 20}
	for i, n := range sizes {
		text.WriteString("data: ")
		text.Write(bytes.Repeat([]byte{'a' + byte(i)}, n))
		text.WriteString("\r\n\r\n")
	}
	events, _, _ := all(t, &text, 4<<20)
	if len(events) != len(sizes) {
		t.Fatalf("%d events, want %d", len(events), len(sizes))
	}
	for i, n := range sizes {
		if want := bytes.Repeat([]byte{'a' + byte(i)}, n); !bytes.Equal(events[i].Data, want) {
			t.Errorf("event %d has %d bytes, want %d", i, len(events[i].Data), n)
		}
	}
}

// TestEventsOversize: what is over the limit is not kept, but its id is found
// wherever it stands, and the stream goes on.
func TestEventsOversize(t *testing.T) {
	long := strings.Repeat(`{"id":9,"x":"\"}],"},`, 5000)
	tests := map[string]struct {
		message string
		id      string
		asks    bool
	}{
		"id first":       {`{"jsonrpc":"2.0", "id" : 12, "result":[` + long + `0]}`, "12", false},
		"id last":        {`{"result":[` + long + `0],"jsonrpc":"2.0","id":"a\"b,}"}`, `"a\"b,}"`, false},
		"request":        {`{"id":3,"method":"x","params":[` + long + `0]}`, "", true},
		"notification":   {`{"method":"x","params":[` + long + `0]}`, "", true},
		"no JSON at all": {strings.Repeat("x", 50_000), "", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			events, _, err := all(t, strings.NewReader("data: "+test.message+"\n\ndata: next\n\n"), 40_000)
			if err != io.EOF || len(events) != 2 || string(events[1].Data) != "next" {
				t.Fatalf("%d events, %v", len(events), err)
			}
			o := events[0].Oversize
			if o == nil || events[0].Data != nil {
				t.Fatal("the event was kept")
			}
			var id string
			for _, one := range o.Answers() {
				id += string(one)
			}
			if id != test.id || o.Asks() != test.asks {
				t.Errorf("answers %s, asks %t; want %s, %t", id, o.Asks(), test.id, test.asks)
			}
		})
	}
}

// FuzzEvents: no stream makes the reader panic, loop, or keep more than the
// limit, and how the bytes arrive makes no difference.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("id: 1\r\ndata: {}\r\n\r\n: x\n\nevent: y\rdata\r\r"))
	f.Add([]byte("data: " + strings.Repeat("x", 70) + "\ndata: y\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		const limit = 64
		whole, a, _ := all(t, bytes.NewReader(text), limit)
		single, b, _ := all(t, iotest.OneByteReader(bytes.NewReader(text)), limit)
		if len(whole) != len(single) || a.LastID() != b.LastID() || a.Retry() != b.Retry() {
			t.Fatalf("%d events against %d", len(whole), len(single))
		}
		for i := range whole {
			if len(whole[i].Data) > limit {
				t.Errorf("%d bytes kept", len(whole[i].Data))
			}
			if whole[i].Name != single[i].Name || !bytes.Equal(whole[i].Data, single[i].Data) {
				t.Errorf("event %d: %q against %q", i, whole[i].Data, single[i].Data)
			}
		}
	})
}
