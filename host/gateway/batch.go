package gateway

import (
	"encoding/json"
	"net/http"
	"sync"

	"github.com/hermes-host/hermes-host/host/relay"
	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// maxBatch bounds the messages of one batch.
const maxBatch = 100

// legacyBatch serves a batch, which only protocol 2025-03-26 has.
func (g *Gateway) legacyBatch(w http.ResponseWriter, r *http.Request, name string, endpoint relay.Endpoint, body []byte, a accept) {
	if r.Header.Get(headerVersion) >= version20260728 {
		writeError(w, http.StatusBadRequest, nil, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "batches are part of protocol version %s only", version20250326))
		return
	}
	if e := legacyVersion(r.Header); e != nil {
		writeError(w, http.StatusBadRequest, nil, e)
		return
	}
	all, err := rawjson.Elements(jsonrpc.TrimMark(body))
	if err != nil {
		writeError(w, http.StatusBadRequest, nil, parseError(err))
		return
	}
	s := g.session(w, r, name, nil)
	if s == nil {
		return
	}
	defer s.release()
	if e := checkBatch(s.version, len(all)); e != nil {
		writeError(w, http.StatusBadRequest, nil, e)
		return
	}
	x := &exchange{g: g, w: w, conn: r.Context(), accept: a, s: s, batch: true}
	g.runBatch(x, all)
}

// checkBatch says what is wrong with a batch of n messages in a session of a
// version, "" before there is one.
func checkBatch(version string, n int) *jsonrpc.Error {
	switch {
	case version == "":
		return jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "a batch cannot come before the session is initialized")
	case version != version20250326:
		return jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "batches are part of protocol version %s only; this session has %s", version20250326, version)
	case n == 0:
		return jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "the batch is empty; it must have at least one message")
	case n > maxBatch:
		return jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "the batch has %d messages, and %d at most are taken; send several batches", n, maxBatch)
	}
	return nil
}

// runBatch takes the messages of a batch, in their order as far as they are no
// requests; those run side by side.
func (g *Gateway) runBatch(x *exchange, all []json.RawMessage) {
	var running sync.WaitGroup
	defer x.endBatch()
	defer x.start()()
	defer running.Wait()
	for _, raw := range all {
		m, err := jsonrpc.Parse(raw)
		if err != nil {
			x.collect(jsonrpc.Message{ID: m.ID, Error: parseError(err)})
			continue
		}
		if !m.IsRequest() {
			g.legacyOther(x.s, &m)
			continue
		}
		if reply, ok := own(m.Method); ok {
			x.collect(jsonrpc.Message{ID: m.ID, Result: reply.Result, Error: reply.Error})
			continue
		}
		c := x.newCall(x.s.ctx, m.ID)
		if e := x.s.begin(c); e != nil {
			x.collect(jsonrpc.Message{ID: m.ID, Error: e})
			continue
		}
		running.Go(func() {
			defer c.cancel(nil)
			reply, _ := g.handle(c.ctx, x.s.endpoint, c, relay.Call{Client: x.s, Stream: c, Method: m.Method, Params: m.Params})
			x.s.finish(c)
			x.collect(jsonrpc.Message{ID: m.ID, Result: reply.Result, Error: reply.Error})
		})
	}
}

// collect takes an answer of a batch.
func (x *exchange) collect(m jsonrpc.Message) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stream == nil && !x.accept.json {
		x.upgrade()
	}
	if x.stream != nil {
		x.stream.add(&m)
		return
	}
	x.answers = append(x.answers, m)
}

// endBatch writes the collected answers, or completes the stream that they
// went to.
func (x *exchange) endBatch() {
	x.mu.Lock()
	x.over = true
	st := x.stream
	x.mu.Unlock()
	switch {
	case st != nil:
		st.close()
		<-x.pumped
	case len(x.answers) == 0:
		x.w.WriteHeader(http.StatusAccepted)
	default:
		out := []byte{'['}
		for i := range x.answers {
			if i > 0 {
				out = append(out, ',')
			}
			out = x.answers[i].Append(out)
		}
		h := x.w.Header()
		h["Content-Type"] = typeJSON
		_, _ = x.w.Write(append(out, ']')) // a client that is gone needs no answer
	}
}
