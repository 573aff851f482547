package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// ErrHostGone says that a host ended while a client of it was there.
var ErrHostGone = errors.New("the host that this client had joined has ended")

// A Joint is a connection that a host treats as the standard input and output
// of an MCP client.
type Joint struct {
	// Version and PID are the host's.
	Version string
	PID     int
	conn    *net.UnixConn
	in      *bufio.Reader
}

// Join asks the host to serve one more MCP client. The error is an *Error if
// the host refused. Use Pipe, or Close.
func (c *Client) Join(ctx context.Context) (*Joint, error) {
	ctx, cancel := context.WithTimeout(ctx, joining)
	defer cancel()
	var d net.Dialer
	dialed, err := d.DialContext(ctx, "unix", c.Path)
	if err != nil {
		return nil, fmt.Errorf("joining the host at %s: %w", c.Path, err)
	}
	conn := dialed.(*net.UnixConn)
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	j, err := shake(conn)
	if err != nil {
		conn.Close()
		if refusal, ok := errors.AsType[*Error](err); ok {
			return nil, refusal
		}
		return nil, fmt.Errorf("joining the host at %s: %w", c.Path, err)
	}
	_ = conn.SetDeadline(time.Time{})
	return j, nil
}

// shake asks for the upgrade.
func shake(conn *net.UnixConn) (*Joint, error) {
	req, err := http.NewRequest(http.MethodGet, "http://host/v1/mcp", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", protocol)
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(conn, 64<<10)
	res, err := http.ReadResponse(in, req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		pid, _ := strconv.Atoi(res.Header.Get("Hermes-Pid"))
		return &Joint{Version: res.Header.Get("Hermes-Version"), PID: pid, conn: conn, in: in}, nil
	}
	defer res.Body.Close()
	refusal := &Error{}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxLine)).Decode(refusal); err != nil || refusal.Code == "" {
		return nil, fmt.Errorf("it answered %s: it may be of another version", res.Status)
	}
	return nil, refusal
}

// Close ends the connection.
func (j *Joint) Close() { _ = j.conn.Close() }

// Pipe carries bytes both ways until the client's input has ended and the host
// has answered what came before, which is nil, or until ctx ends, which is nil
// too. It is ErrHostGone if the host ended first. A Read of in that does not
// end keeps a goroutine.
func (j *Joint) Pipe(ctx context.Context, in io.Reader, out io.Writer) error {
	defer j.conn.Close()
	defer context.AfterFunc(ctx, j.Close)()
	sent := make(chan error, 1)
	go func() {
		_, err := io.Copy(j.conn, in)
		sent <- err // before the host can know, and end the connection in turn
		_ = j.conn.CloseWrite()
	}()
	writing := &writeErrors{Writer: out}
	_, err := io.Copy(writing, j.in)
	switch {
	case ctx.Err() != nil:
		return nil
	case writing.err != nil:
		return fmt.Errorf("writing to the client: %w", writing.err)
	}
	select {
	case failed := <-sent:
		if failed == nil && err == nil {
			return nil
		}
	default:
	}
	return ErrHostGone
}

// writeErrors tells an error of writing from one of reading.
type writeErrors struct {
	io.Writer
	err error
}

// Write remembers the error.
func (w *writeErrors) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		w.err = err
	}
	return n, err
}
