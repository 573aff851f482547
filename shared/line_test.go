package shared

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// readAll reads to the end, copying what aliases the buffer.
func readAll(t *testing.T, c *LineConn) []string {
	t.Helper()
	var all []string
	for {
		in, err := c.Read(t.Context())
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if in.Failure != nil {
			all = append(all, fmt.Sprintf("failure %s %v", in.ID, in.Failure.Reason))
			continue
		}
		all = append(all, string(in.Append(nil)))
	}
}

func TestLineConnRead(t *testing.T) {
	big := strings.Repeat("x", 300)
	answer := func(id, result string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":` + result + `}` }
	for _, c := range []struct {
		name, input string
		want        []string
		stray       []string
	}{
		{"lines", answer("1", "{}") + "\n" + answer("2", "[]") + "\n", []string{answer("1", "{}"), answer("2", "[]")}, nil},
		{"CRLF and empty lines", "\r\n\n  \n" + answer("1", "{}") + "\r\n\r\n", []string{answer("1", "{}")}, nil},
		{"no line end", answer("1", "{}"), []string{answer("1", "{}")}, nil},
		{"batch", "[" + answer("1", "{}") + "," + answer("2", "{}") + "]\n", []string{answer("1", "{}"), answer("2", "{}")}, nil},
		{"stray text", "hello\n" + answer("1", "{}") + "\n{\"a\":1}\n", []string{answer("1", "{}")}, []string{"hello", `{"a":1}`}},
		{"invalid answer", `{"id":3,"result":{}}` + "\n", []string{"failure 3 REASON_INVALID"}, nil},
		{"byte order marks", "\ufeff" + answer("1", "{}") + "\n\ufeff[" + answer("2", "{}") + "]\n", []string{answer("1", "{}"), answer("2", "{}")}, nil},
		{"cut off", `{"jsonrpc":"2.0","id":3,"result":{"content":[{"te` + "\n" + answer("1", "{}") + "\n", []string{"failure 3 REASON_INVALID", answer("1", "{}")}, nil},
		{"cut off before its id", `{"jsonrpc":"2.0","result":{"content":[{"te` + "\n" + answer("1", "{}") + "\n", []string{answer("1", "{}")}, []string{`{"jsonrpc"`}},
		{"two ids", `{"jsonrpc":"2.0","id":3,"id":4,"result":{}}` + "\n", []string{"failure 3 REASON_INVALID", "failure 4 REASON_INVALID"}, nil},
		{"two on a line", answer("3", "{}") + `{"jsonrpc":"2.0","id":5,"method":"m"}` + "\n", []string{"failure 3 REASON_INVALID"}, nil},
		{"a broken batch", "[" + answer("3", "{}") + "," + answer("4", "NaN") + `,{"id":5,"method":"m"},` + "\n", []string{"failure 3 REASON_INVALID", "failure 4 REASON_INVALID"}, nil},
		{"a printed object", `{"id":3,"level":"info"}` + "\n" + `Got {"jsonrpc":"2.0","id":3,"result":{}}` + "\n", nil, []string{`{"id":3`, "Got "}},
		{"too long, id first", answer("7", `"`+big+`"`) + "\n" + answer("1", "{}") + "\n", []string{"failure 7 REASON_OVERSIZE", answer("1", "{}")}, nil},
		{"too long, id last", `{"jsonrpc":"2.0","result":{"id":9,"t":"` + big + `\"}"},"id": "a\",}"}` + "\n" + answer("1", "{}") + "\n",
			[]string{`failure "a\",}" REASON_OVERSIZE`, answer("1", "{}")}, nil},
		{"too long, a string says id", `{"jsonrpc":"2.0","x":"id","y":":5,","id":8,"result":["` + big + `"]}` + "\n", []string{"failure 8 REASON_OVERSIZE"}, nil},
		{"too long, a request", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"t":"` + big + `"}}` + "\n" + answer("1", "{}") + "\n",
			[]string{answer("1", "{}")}, []string{"a line of"}},
		{"too long, no JSON", big + big + "\n" + answer("1", "{}") + "\n", []string{answer("1", "{}")}, []string{"a line of"}},
		{"too long, no line end", answer("7", `"`+big+`"`), []string{"failure 7 REASON_OVERSIZE"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, reader := range []func(io.Reader) io.Reader{
				func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader,
			} {
				var stray []string
				conn := NewLineConn(reader(strings.NewReader(c.input)), io.Discard, LineOptions{
					MaxMessageBytes: 200,
					Stray:           func(l string) { stray = append(stray, l) },
				})
				got := readAll(t, conn)
				if fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("got  %q\nwant %q", got, c.want)
				}
				if len(stray) != len(c.stray) {
					t.Fatalf("stray lines %q, want %q", stray, c.stray)
				}
				for i := range stray {
					if !strings.HasPrefix(stray[i], c.stray[i]) {
						t.Errorf("stray line %q, want %q", stray[i], c.stray[i])
					}
				}
			}
		})
	}
}

// An answer that can't be relayed, as it is nested too deeply, fails the call.
func TestLineConnTooDeep(t *testing.T) {
	deep := `{"jsonrpc":"2.0","result":` + strings.Repeat("[", 10_050) + strings.Repeat("]", 10_050) + `,"id":3}`
	conn := NewLineConn(strings.NewReader(deep+"\n"), io.Discard, LineOptions{})
	in, err := conn.Read(t.Context())
	if err != nil || in.Failure == nil || string(in.ID) != "3" || !strings.Contains(in.Failure.Message, "nested too deeply") {
		t.Errorf("got %v, %v", in, err)
	}
}

// A line of any length below the limit arrives whole, whatever the buffer did
// before.
func TestLineConnLengths(t *testing.T) {
	var input bytes.Buffer
	var lengths []int
	for _, n := range []int{1, lineBuffer - 60, lineBuffer, lineBuffer + 1, 10, 3 * lineBuffer, lineKeep + 5, 2, 2*lineKeep + 1, lineBuffer / 2, lineBuffer / 2, lineBuffer / 2} {
		lengths = append(lengths, n)
		fmt.Fprintf(&input, `{"jsonrpc":"2.0","id":%d,"result":"%s"}`+"\n", n, strings.Repeat("z", n))
	}
	conn := NewLineConn(&input, io.Discard, LineOptions{})
	for _, n := range lengths {
		in, err := conn.Read(t.Context())
		if err != nil || string(in.ID) != fmt.Sprint(n) || string(in.Result) != `"`+strings.Repeat("z", n)+`"` {
			t.Fatalf("length %d: got id %s, %d bytes, %v", n, in.ID, len(in.Result), err)
		}
	}
}

// counter counts calls of Write.
type counter struct {
	bytes.Buffer
	calls int
}

func (c *counter) Write(b []byte) (int, error) { c.calls++; return c.Buffer.Write(b) }

func TestLineConnWrite(t *testing.T) {
	w := &counter{}
	conn := NewLineConn(strings.NewReader(""), w, LineOptions{})
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			m := jsonrpc.Message{ID: fmt.Append(nil, i), Method: "m", Params: []byte("{\r\n\"a\":\n1}")}
			if err := conn.Write(t.Context(), &m); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	lines := strings.Split(strings.TrimSuffix(w.String(), "\n"), "\n")
	if len(lines) != 50 || w.calls != 50 {
		t.Fatalf("%d lines by %d writes", len(lines), w.calls)
	}
	for _, l := range lines {
		if _, err := jsonrpc.Parse([]byte(l)); err != nil {
			t.Errorf("%q: %v", l, err)
		}
	}
}

// A write that blocks does not keep answers from being read, and Close ends it.
func TestLineConnBlockedWrite(t *testing.T) {
	fromServer, server := io.Pipe()
	_, toServer := io.Pipe() // nobody reads
	conn := NewLineConn(fromServer, toServer, LineOptions{})
	written := make(chan error, 1)
	go func() {
		written <- conn.Write(context.Background(), &jsonrpc.Message{ID: []byte("1"), Method: "m"})
	}()
	go func() { _, _ = io.WriteString(server, `{"jsonrpc":"2.0","method":"n"}`+"\n") }()
	if in, err := conn.Read(t.Context()); err != nil || in.Method != "n" {
		t.Fatalf("got %v, %v", in, err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	failed, ok := errors.AsType[*WriteError](<-written)
	if !ok || failed.Delivered != transportpb.TransportError_DELIVERED_NO {
		t.Errorf("got %v", failed)
	}
	if _, err := conn.Read(t.Context()); err == nil {
		t.Error("Read goes on after Close")
	}
}

// A failed write ends the connection, and says why.
func TestLineConnFailedWrite(t *testing.T) {
	fromServer, server := io.Pipe()
	defer server.Close()
	theirs, toServer := io.Pipe()
	conn := NewLineConn(fromServer, toServer, LineOptions{})
	_ = theirs.CloseWithError(errors.New("full up"))
	if _, ok := errors.AsType[*WriteError](conn.Write(t.Context(), &jsonrpc.Message{Method: "m"})); !ok {
		t.Error("no WriteError")
	}
	if _, err := conn.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "full up") {
		t.Errorf("Read: %v", err)
	}
}

func BenchmarkLineConnRead(b *testing.B) {
	for _, size := range []int{100, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			line := []byte(`{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", size) + "\"}\n")
			conn := NewLineConn(&loop{text: line}, io.Discard, LineOptions{})
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := conn.Read(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLineConnWrite(b *testing.B) {
	for _, size := range []int{100, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			conn := NewLineConn(strings.NewReader(""), io.Discard, LineOptions{})
			m := jsonrpc.Message{ID: []byte("1"), Method: "tools/call", Params: []byte(`{"x":"` + strings.Repeat("x", size) + `"}`)}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if err := conn.Write(b.Context(), &m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// loop reads the same text for ever.
type loop struct {
	text []byte
	at   int
}

func (l *loop) Read(b []byte) (int, error) {
	n := copy(b, l.text[l.at:])
	l.at = (l.at + n) % len(l.text)
	return n, nil
}
