package admin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestAsk puts every question over a real socket.
func TestAsk(t *testing.T) {
	f := newFake("a.hcl")
	c, _ := serve(t, f)
	ctx := t.Context()
	told := f.info
	told.Socket = c.Path
	if info, err := c.Info(ctx); err != nil || info != told {
		t.Errorf("info %+v, %v", info, err)
	}
	status := f.Status()
	status.Host = told
	if s, err := c.Status(ctx); err != nil || !reflect.DeepEqual(s, status) {
		t.Errorf("status %+v, %v", s, err)
	}
	if names, err := c.Reconnect(ctx, "files"); err != nil || !slices.Equal(names, []string{"files"}) {
		t.Errorf("reconnect %v, %v", names, err)
	}
	if names, err := c.Reconnect(ctx); err != nil || len(names) != 2 {
		t.Errorf("reconnect all: %v, %v", names, err)
	}
	if err := c.Park(ctx, "tickets"); err != nil {
		t.Errorf("park: %v", err)
	}
	if changes, err := c.Reload(ctx, true); err != nil || !changes.DryRun || len(changes.Added) != 1 {
		t.Errorf("reload: %+v, %v", changes, err)
	}
	want := []string{
		"reconnect files by an operator", "reconnect files+tickets by an operator", "park tickets by an operator", "reload by an operator",
	}
	if !slices.Equal(f.orders, want) {
		t.Errorf("the host heard %q, want %q", f.orders, want)
	}
}

// TestRefusals keeps what a program needs to act on a refusal.
func TestRefusals(t *testing.T) {
	f := newFake("a.hcl")
	f.reload = func(bool) (Changes, error) {
		return Changes{}, &Error{Code: Refused, Message: "no", Diagnostics: []string{"a.hcl:1:1: error"}, Text: "Error: …\n"}
	}
	c, _ := serve(t, f)
	ctx := t.Context()

	_, err := c.Reconnect(ctx, "fils")
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Code != UnknownServer || !slices.Equal(e.Near, []string{"files"}) || !slices.Equal(e.Known, []string{"files", "tickets"}) {
		t.Errorf("reconnecting an unknown server: %+v", err)
	}
	if err := c.Logs(ctx, Query{Server: "nobody"}, nil); err == nil || !strings.Contains(err.Error(), "the servers are files, tickets") {
		t.Errorf("logs of an unknown server: %v", err)
	}
	f.logs.Add(func(seq uint64) Line { return Line{Seq: seq, Server: "moved", Message: "its last"} })
	var last string
	if err := c.Logs(ctx, Query{Server: "moved"}, func(l Line) error { last = l.Message; return nil }); err != nil || last != "its last" {
		t.Errorf("logs of a server that was removed: %q, %v", last, err)
	}
	if err := c.Events(ctx, Query{Server: "moved"}, nil); err == nil || !strings.Contains(err.Error(), "there is no server") {
		t.Errorf("events of a server that was removed, of which none are left: %v", err)
	}
	_, err = c.Reload(ctx, false)
	if e, ok := errors.AsType[*Error](err); !ok || e.Code != Refused || len(e.Diagnostics) != 1 || e.Text == "" {
		t.Errorf("a refused reload: %+v", err)
	}
	if err := c.ask(ctx, http.MethodGet, "/v2/status", nil, nil); err == nil || !strings.Contains(err.Error(), "another version") {
		t.Errorf("a path of another version: %v", err)
	}
	if err := c.ask(ctx, http.MethodPost, "/v1/park", strings.Repeat("x", 2*maxRequest), nil); err == nil {
		t.Error("a body without bounds was read")
	}
}

// TestWatch sees the status at once, with every event, and when it changes
// without one; not when nothing has changed.
func TestWatch(t *testing.T) {
	f := newFake("a.hcl")
	c, stop := serve(t, f)
	seen := make(chan Status)
	ended := make(chan error, 1)
	go func() {
		ended <- c.Watch(t.Context(), func(s Status) error { seen <- s; return nil })
	}()
	next := func() Status {
		t.Helper()
		select {
		case s := <-seen:
			return s
		case err := <-ended:
			t.Fatalf("watching ended: %v", err)
		case <-time.After(10 * time.Second):
			t.Fatal("nothing came")
		}
		return Status{}
	}
	if s := next(); s.Servers[0].State != "ready" {
		t.Errorf("at first: %+v", s)
	}
	f.mu.Lock()
	f.status.Servers[0].State = "reconnecting"
	f.mu.Unlock()
	f.events.Add(func(seq uint64) Event { return Event{Seq: seq} })
	if s := next(); s.Servers[0].State != "reconnecting" {
		t.Errorf("after the event: %+v", s)
	}
	f.mu.Lock()
	f.status.Clients = 3
	f.mu.Unlock()
	if s := next(); s.Clients != 3 {
		t.Errorf("after a change without an event: %+v", s)
	}
	stop()
	if err := <-ended; err != io.EOF {
		t.Errorf("watching ended with %v, want io.EOF", err)
	}
}

// TestFollow shows lines that are there, filtered and cut to the last, and
// then those that come.
func TestFollow(t *testing.T) {
	f := newFake("a.hcl")
	c, _ := serve(t, f)
	add := func(server, message string) {
		f.logs.Add(func(seq uint64) Line { return Line{Seq: seq, Server: server, Message: message} })
	}
	for _, text := range []string{"1", "2", "3"} {
		add("files", text)
		add("tickets", "t"+text)
	}
	var got []string
	if err := c.Logs(t.Context(), Query{}, func(l Line) error { got = append(got, l.Message); return nil }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"1", "t1", "2", "t2", "3", "t3"}; !slices.Equal(got, want) {
		t.Errorf("all lines: %q", got)
	}
	got = nil
	done := errors.New("enough")
	err := c.Logs(t.Context(), Query{Server: "files", Last: new(2), Follow: true}, func(l Line) error {
		got = append(got, l.Message)
		switch l.Message {
		case "3":
			add("tickets", "t4")
			add("files", "4")
		case "4":
			return done
		}
		return nil
	})
	if want := []string{"2", "3", "4"}; err != done || !slices.Equal(got, want) {
		t.Errorf("following gave %q, %v; want %q", got, err, want)
	}
}

// TestFollowFromNow shows none of the lines that are there, and then, followed,
// those that come.
func TestFollowFromNow(t *testing.T) {
	f := newFake("a.hcl")
	c, _ := serve(t, f)
	add := func(message string) { f.logs.Add(func(seq uint64) Line { return Line{Seq: seq, Message: message} }) }
	add("old")
	if err := c.Logs(t.Context(), Query{Last: new(0)}, func(l Line) error { t.Errorf("got %q", l.Message); return nil }); err != nil {
		t.Fatal(err)
	}
	connected := make(chan struct{})
	c.http.Transport = &afterHeader{c.http.Transport, func() { close(connected) }}
	go func() {
		<-connected
		add("new")
	}()
	var got []string
	done := errors.New("enough")
	err := c.Logs(t.Context(), Query{Last: new(0), Follow: true}, func(l Line) error { got = append(got, l.Message); return done })
	if err != done || !slices.Equal(got, []string{"new"}) {
		t.Errorf("following gave %q, %v", got, err)
	}
}

// afterHeader calls then when the header of an answer has come.
type afterHeader struct {
	http.RoundTripper
	then func()
}

func (a *afterHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := a.RoundTripper.RoundTrip(r)
	a.then()
	return res, err
}

// TestJoin carries bytes both ways, and tells the client's end from the host's.
func TestJoin(t *testing.T) {
	f := newFake("a.hcl")
	c, stop := serve(t, f)
	join := func() *Joint {
		t.Helper()
		j, err := c.Join(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return j
	}

	j := join()
	if j.Version != "v1" || j.PID == 0 {
		t.Errorf("the host said version %q, process %d", j.Version, j.PID)
	}
	var out bytes.Buffer
	if err := j.Pipe(t.Context(), strings.NewReader("one\ntwo\n"), &out); err != nil || out.String() != "ONE\nTWO\nBYE\n" {
		t.Errorf("the client's input ended: %q, %v", &out, err)
	}

	in, typing := io.Pipe()
	defer typing.Close()
	go typing.Write([]byte("end\n"))
	if err := join().Pipe(t.Context(), in, io.Discard); err != ErrHostGone {
		t.Errorf("the host ended the connection: %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in2, typing2 := io.Pipe()
	defer typing2.Close()
	if err := join().Pipe(ctx, in2, io.Discard); err != nil {
		t.Errorf("the client was told to end: %v", err)
	}

	in3, typing3 := io.Pipe()
	defer typing3.Close()
	j = join()
	ended := make(chan error, 1)
	go func() { ended <- j.Pipe(t.Context(), in3, io.Discard) }()
	stop()
	if err := <-ended; err != ErrHostGone {
		t.Errorf("the host stopped: %v", err)
	}
}

// TestJoinedClientEnds: the host that ends the connection in turn, however fast,
// is not taken for one that has ended by itself.
func TestJoinedClientEnds(t *testing.T) {
	c, _ := serve(t, newFake("a.hcl"))
	for i := range 500 {
		j, err := c.Join(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Pipe(t.Context(), strings.NewReader(""), io.Discard); err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
	}
}

// TestJoinRefused passes on why a host can't be joined.
func TestJoinRefused(t *testing.T) {
	f := newFake("a.hcl")
	f.refusal = &Error{Code: Unsupported, Message: "not this one"}
	c, _ := serve(t, f)
	_, err := c.Join(t.Context())
	if e, ok := errors.AsType[*Error](err); !ok || e.Code != Unsupported || e.Message != "not this one" {
		t.Errorf("got %v", err)
	}
}
