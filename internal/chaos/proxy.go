//go:build linux

package main

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// A proxy stands between a TCP client and a server, and can cut, stall and
// refuse connections. The server's side may be a unix socket: those have no
// ports that others could take while the server is down.
type proxy struct {
	listener        net.Listener
	network, target string
	refusing        atomic.Bool
	running         sync.WaitGroup

	mu      sync.Mutex
	flowing chan struct{}       // closed while nothing is stalled
	conns   map[net.Conn]func() // the client's side, and what ends both
	stalled bool
	closed  chan struct{}
}

// newProxy listens at a free port of the loopback interface.
func newProxy(network, target string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{
		listener: l, network: network, target: target,
		flowing: make(chan struct{}), conns: map[net.Conn]func(){}, closed: make(chan struct{}),
	}
	close(p.flowing)
	p.running.Go(p.accept)
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) port() int { return p.listener.Addr().(*net.TCPAddr).Port }

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.refusing.Load() {
			reset(c)
			continue
		}
		p.running.Go(func() { p.relay(c) })
	}
}

// reset closes a connection as one that nobody wanted.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}

// relay carries one connection to its end.
func (p *proxy) relay(client net.Conn) {
	over := make(chan struct{})
	var once sync.Once
	var server net.Conn
	end := func() {
		once.Do(func() {
			close(over)
			reset(client)
			if server != nil {
				server.Close()
			}
		})
	}
	defer end()
	if !p.flow(over) {
		return
	}
	var err error
	if server, err = net.Dial(p.network, p.target); err != nil {
		return
	}
	p.mu.Lock()
	select {
	case <-p.closed:
		p.mu.Unlock()
		return
	default:
		p.conns[client] = end
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.conns, client)
		p.mu.Unlock()
	}()
	var both sync.WaitGroup
	both.Go(func() { p.pump(server, client, over); end() })
	both.Go(func() { p.pump(client, server, over); end() })
	both.Wait()
}

// pump copies until either side or the connection ends.
func (p *proxy) pump(to io.Writer, from io.Reader, over chan struct{}) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !p.flow(over) {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// flow waits while the proxy is stalled. It reports whether the connection is
// still wanted.
func (p *proxy) flow(over chan struct{}) bool {
	p.mu.Lock()
	flowing := p.flowing
	p.mu.Unlock()
	select {
	case <-flowing:
		return true
	case <-over:
	case <-p.closed:
	}
	return false
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	ends := make([]func(), 0, len(p.conns))
	for _, end := range p.conns {
		ends = append(ends, end)
	}
	p.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// refuse ends all connections that come, until it is called with false.
func (p *proxy) refuse(on bool) { p.refusing.Store(on) }

// stall keeps all bytes back, until it is called with false.
func (p *proxy) stall(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on == p.stalled {
		return
	}
	p.stalled = on
	if on {
		p.flowing = make(chan struct{})
	} else {
		close(p.flowing)
	}
}

// close ends everything and waits for it.
func (p *proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	close(p.closed)
	p.mu.Unlock()
	p.cut()
	p.running.Wait()
}
