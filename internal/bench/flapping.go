package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// The flapping upstream: many MCP servers over streamable HTTP in one process,
// one per path, as small as can be, so that it is the host that is measured.
// Once told to, each of them works for a while, loses its session, refuses new
// ones for a moment, and begins again.

const (
	upFor   = 2 * time.Second // of each server, up to half more or less at random
	downFor = time.Second
)

type flapping struct {
	mu          sync.Mutex
	servers     map[string]*flapper
	flaps       bool
	lost, begun int // sessions, since it flaps
}

// A flapper is one server. All is guarded by flapping.mu.
type flapper struct {
	life int           // the number of the present session
	up   bool          // there may be a session
	ends chan struct{} // closed when the present life ends
	has  bool          // somebody has initialised in this life
}

// serveFlapping serves at an address, whose URL it prints.
func serveFlapping(address string) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.Addr())
	log.Fatal(http.Serve(l, &flapping{servers: map[string]*flapper{}}))
}

// control asks the flapping upstream to do something.
func control(ctx context.Context, base, what string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/control/"+what, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if into == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

func (f *flapping) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/control/flap":
		f.mu.Lock()
		defer f.mu.Unlock()
		f.flaps = true
		for _, s := range f.servers {
			f.plan(s)
		}
	case "/control/count":
		f.mu.Lock()
		defer f.mu.Unlock()
		_ = json.NewEncoder(w).Encode(map[string]int{"lost": f.lost, "begun": f.begun}) // the bench has gone
	default:
		f.serve(w, r)
	}
}

// plan ends the server's life after a while, and begins the next. f.mu is held.
func (f *flapping) plan(s *flapper) {
	time.AfterFunc(upFor/2+rand.N(upFor), func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		close(s.ends)
		s.up, s.ends = false, make(chan struct{})
		s.life++
		if s.has {
			f.lost++
		}
		s.has = false
		time.AfterFunc(downFor, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			s.up = true
			f.plan(s)
		})
	})
}

// serve is one server.
func (f *flapping) serve(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || len(body) > 0 && json.Unmarshal(body, &m) != nil {
		http.Error(w, "no message", http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	s := f.servers[r.URL.Path]
	if s == nil {
		s = &flapper{up: true, ends: make(chan struct{}), life: 1}
		f.servers[r.URL.Path] = s
	}
	if m.Method == "initialize" && s.up {
		s.has = true
		if f.flaps {
			f.begun++
		}
	}
	up, life, ends := s.up, strconv.Itoa(s.life), s.ends
	f.mu.Unlock()

	session := r.Header.Get("Mcp-Session-Id")
	switch {
	case session != "" && (!up || session != life):
		http.Error(w, "no such session", http.StatusNotFound)
	case !up:
		http.Error(w, "down for a moment", http.StatusServiceUnavailable)
	case r.Method == http.MethodGet:
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		select {
		case <-ends:
		case <-r.Context().Done():
		}
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Mcp-Session-Id", life)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, flapAnswer(m.Method))
	}
}

func flapAnswer(method string) string {
	switch method {
	case "initialize":
		return `"result":{"protocolVersion":"` + version + `","capabilities":{"tools":{}},"serverInfo":{"name":"flapper","version":"1"}}`
	case "tools/list":
		return `"result":{"tools":[{"name":"idle","description":"Nobody calls it.","inputSchema":{"type":"object"}}]}`
	case "ping":
		return `"result":{}`
	}
	return `"error":{"code":-32601,"message":"method not found"}`
}
