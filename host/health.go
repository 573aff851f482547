package host

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hermes-host/hermes-host/host/supervisor"
)

// answering bounds how long a supervisor may take to show that it lives.
const answering = 2 * time.Second

// healthz says whether the host works: it serves this request, and the
// goroutine of each supervisor answers. Whether servers are up is another
// matter, which a restart of the host would not mend.
func (h *Host) healthz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answering)
	defer cancel()
	var mu sync.Mutex
	stuck := map[string]string{}
	var asking sync.WaitGroup
	for _, m := range h.all() {
		if !m.begun.Load() {
			continue // it waits for the end of what was removed
		}
		asking.Go(func() {
			if m.sup.Alive(ctx) != nil {
				mu.Lock()
				defer mu.Unlock()
				stuck[m.name] = fmt.Sprintf("its supervisor does not answer within %s", answering)
			}
		})
	}
	asking.Wait()
	h.verdict(w, r, "healthy", "", stuck)
}

// readyz says whether the lists are as good as they get without a change in
// the world: every server of the first configuration has been up, or given up,
// once. From then on the host is ready until it stops: servers that a reload
// adds are no reason to keep clients from the others.
func (h *Host) readyz(w http.ResponseWriter, r *http.Request) {
	if h.stopping.Load() {
		h.verdict(w, r, "ready", "the host is stopping", nil)
		return
	}
	waiting := map[string]string{}
	for _, m := range h.all() {
		if !m.hasSettled() {
			waiting[m.name] = m.cfg.Redact(m.sup.Status().State.String())
		}
	}
	if h.ready() {
		waiting = nil
	}
	h.verdict(w, r, "ready", "", waiting)
}

// ready reports whether the host has been ready once, and is not stopping.
func (h *Host) ready() bool {
	if h.stopping.Load() {
		return false
	}
	if h.settled.Load() {
		return true
	}
	members := h.all()
	for _, m := range members {
		if !m.hasSettled() {
			return false
		}
	}
	h.mu.RLock()
	started := h.cfg != nil
	h.mu.RUnlock()
	h.settled.Store(started)
	return started
}

func (m *member) hasSettled() bool {
	select {
	case <-m.settled:
		return true
	default:
		return false
	}
}

// all returns the members that clients see, in no order.
func (h *Host) all() []*member {
	h.mu.RLock()
	defer h.mu.RUnlock()
	members := make([]*member, 0, len(h.members))
	for _, m := range h.members {
		members = append(members, m)
	}
	return members
}

// verdict answers a question about health: what is well, unless there is a
// reason or a server that is not. With ?verbose it says more, as JSON; what goes
// on with a server that has a session, and is of no use all the same, is no part
// of the verdict.
func (h *Host) verdict(w http.ResponseWriter, r *http.Request, well, reason string, bad map[string]string) {
	code := http.StatusOK
	if reason != "" || len(bad) > 0 {
		code = http.StatusServiceUnavailable
	}
	w.Header().Set("Cache-Control", "no-store")
	if r.URL.Query().Has("verbose") {
		states, troubles := map[string]supervisor.State{}, map[string]string{}
		for _, m := range h.all() {
			now := m.sup.Status()
			states[m.name] = now.State
			if now.Trouble.Kind != supervisor.NoTrouble {
				troubles[m.name] = now.Trouble.Kind.Headline()
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(struct {
			OK      bool                        `json:"ok"`
			Reason  string                      `json:"reason,omitempty"`
			Bad     map[string]string           `json:"bad,omitempty"`
			Servers map[string]supervisor.State `json:"servers"`
			Trouble map[string]string           `json:"trouble,omitempty"`
		}{code == http.StatusOK, reason, bad, states, troubles})
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	if code == http.StatusOK {
		fmt.Fprintln(w, well)
		return
	}
	var why []string
	if reason != "" {
		why = append(why, reason)
	}
	for name, text := range bad {
		why = append(why, name+": "+text)
	}
	fmt.Fprintln(w, "not "+well+": "+strings.Join(why, "; "))
}
