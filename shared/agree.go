package shared

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// This file decides which handshakes a session tries, in which order and on
// which connections; handshake.go performs them.

// discoverPatience is how long server/discover waits for an answer when it
// comes first and is not known to be what the server takes. Some older servers
// ignore methods that they do not know.
const discoverPatience = 5 * time.Second

// handshake is one session's way to an initialised connection.
type handshake struct {
	s        *session
	conn     Conn
	writing  sync.Mutex                 // one Write at a time
	held     []*transportpb.PluginFrame // what came before SessionInit
	dials    int
	dialled  time.Time // the latest
	silent   bool      // server/discover got no answer when it came first
	late     bool      // server/discover was answered, and initialize was not
	versions []string  // that the server has named after it refused one in initialize
	named    bool      // versions are of this handshake
}

// connect dials and agrees with the server on a version.
func (h *handshake) connect() (*transportpb.SessionInit, error) {
	if err := h.dial(); err != nil {
		return nil, err
	}
	init, err := h.agree()
	if errors.Is(err, ErrRedial) {
		if err := h.redial(); err != nil {
			return nil, err
		}
		init, err = h.agree()
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		return nil, refused.end()
	}
	if p, ok := h.conn.(Process); ok && err == nil {
		init.ProcessId = int64(p.ProcessID())
	}
	return init, err
}

// order says which handshake comes first on this connection and whether the
// other may follow.
func (h *handshake) order() Discover {
	order := h.discovers()
	switch {
	case h.s.hello.discover == "":
		return DiscoverNever
	case order == DiscoverFallback && h.s.hello.newer:
		return DiscoverFirst
	}
	return order
}

// discovers is the order that the transport wants.
func (h *handshake) discovers() Discover {
	if c, ok := h.conn.(Discoverer); ok {
		return c.Discover()
	}
	return h.s.svc.discover
}

// agree performs the handshakes that the order asks for. What an earlier
// session has learnt, and the client's own version, change which of the two
// comes first, never whether the other follows: a server that has changed
// since gets its session all the same.
func (h *handshake) agree() (*transportpb.SessionInit, error) {
	order, dials := h.order(), h.dials
	usual := byInitialize
	if order == DiscoverFirst && !h.s.hello.older {
		usual = byDiscover
	}
	begin := usual
	if order != DiscoverNever && h.s.was.Begin != "" {
		begin = h.s.was.Begin
	}
	var init *transportpb.SessionInit
	var err error
	if begin == byDiscover {
		init, err = h.discoverFirst()
		if init == nil && err == nil {
			init, err = h.initializeAs()
		}
	} else {
		init, err = h.initializeAs()
		if err != nil && h.otherwise(err, order) {
			init, err = h.discoverAfter(err)
		}
	}
	if err != nil {
		return nil, err
	}
	way := byInitialize
	if slices.Contains(discoverVersions, init.ProtocolVersion) {
		way = byDiscover
	}
	if h.late && begin == byInitialize && !h.s.hello.older {
		h.s.about.Logger.Warn("the server answers server/discover and leaves initialize unanswered; "+
			`protocol = "2026-07-28" in its server block spares that wait`, "waited", time.Since(h.s.began).Round(time.Second))
	}
	m := h.s.was.of(init.ServerInfo)
	if way != m.Begin {
		again := m.Doubt
		m.Begin, m.Doubt = "", false
		if way != usual && (h.dials > dials || h.late) {
			m.Begin, m.Doubt = h.sure(way, again)
		}
	}
	if h.named {
		m.Versions = h.versions
	}
	h.note(init, m)
	return init, nil
}

// sure returns the way as what to begin with from now on, and else that there
// is doubt: silence says little where the server takes its time to answer
// anything, as one does that has to be downloaded first. The second time it
// counts.
func (h *handshake) sure(way string, again bool) (begin string, doubt bool) {
	if h.silent && !h.late && !again && time.Since(h.dialled) > discoverPatience/2 {
		return "", true
	}
	return way, false
}

// otherwise reports whether server/discover may do where initialize did not.
// Where the order would have had it first, any failure that is not beyond
// mending leads there.
func (h *handshake) otherwise(err error, order Discover) bool {
	refused, isRefusal := errors.AsType[*refusal](err)
	switch {
	case order == DiscoverNever || h.s.ctx.Err() != nil || errors.Is(err, ErrRedial):
		return false
	case isRefusal && refused.otherEra():
		return true
	}
	class := endOf(err).Class
	return order == DiscoverFirst && class != transportpb.SessionEnd_CLASS_AUTH && class != transportpb.SessionEnd_CLASS_CONFIG
}

// discoverAfter tries server/discover, on a new connection, after initialize has
// failed.
func (h *handshake) discoverAfter(failed error) (*transportpb.SessionInit, error) {
	h.s.about.Logger.Debug("no session by initialize; trying server/discover", "error", failed)
	if err := h.redial(); err != nil {
		return nil, err
	}
	init, err := h.discover()
	if err == nil {
		return init, nil
	}
	refused, ok := errors.AsType[*refusal](failed)
	if !ok {
		return nil, failed
	}
	if again, ok := errors.AsType[*refusal](err); ok {
		refused.message += "; " + again.message
	} else {
		refused.message += "; server/discover: " + err.Error()
	}
	return nil, refused
}

// initializeAs performs initialize with the version that fits best. If the
// server refuses that, it is asked again, on a new connection, for one that it
// has named, or without what an earlier session has learnt.
func (h *handshake) initializeAs() (*transportpb.SessionInit, error) {
	wanted := h.s.hello.initialize
	offer := wanted
	if known := h.s.was.Versions; len(known) > 0 && !slices.Contains(known, wanted) {
		offer = known[0]
	}
	var tried []string
	for {
		init, err := h.initialize(offer)
		refused, ok := errors.AsType[*refusal](err)
		if !ok {
			return init, err
		}
		tried = append(tried, offer)
		if named := spoken(refused.supported); len(named) > 0 {
			h.versions, h.named = named, true
			offer = named[0]
		} else if refused.otherEra() {
			h.versions, h.named = nil, true
			offer = wanted
		}
		if slices.Contains(tried, offer) {
			return nil, err
		}
		if err := h.redial(); err != nil {
			return nil, err
		}
	}
}

// discoverFirst returns nothing at all if initialize is to be tried next, on
// the connection that there is then.
func (h *handshake) discoverFirst() (*transportpb.SessionInit, error) {
	conn, patience := h.conn, discoverPatience
	if h.s.was.Begin == byDiscover {
		patience = max(patience, h.s.patience/2) // it has answered before, so it may be slow
	}
	impatience := time.AfterFunc(patience, func() { h.s.closeWithin(conn) })
	init, err := h.discover()
	impatient := !impatience.Stop()
	h.silent = impatient
	if err == nil && !impatient {
		return init, nil
	}
	if h.s.ctx.Err() != nil {
		return nil, errClosing
	}
	if errors.Is(err, ErrRedial) {
		return nil, err
	}
	if end, ok := errors.AsType[*EndError](err); ok && !impatient {
		// A connection with state may have ended because of the request.
		if h.discovers() != DiscoverFallback || end.Class != transportpb.SessionEnd_CLASS_TRANSPORT {
			return nil, end
		}
	}
	h.s.about.Logger.Debug("no session by server/discover; trying initialize", "error", err)
	if h.discovers() == DiscoverFallback {
		return nil, h.redial() // the refused request may have spoilt this connection
	}
	if _, ok := errors.AsType[*refusal](err); ok && !impatient {
		return nil, nil
	}
	if failed, ok := errors.AsType[*WriteError](err); ok && !impatient {
		if failed.Reason == transportpb.TransportError_REASON_AUTHORIZATION {
			return nil, failed
		}
		return nil, nil
	}
	return nil, h.redial()
}

func (h *handshake) dial() error {
	h.dials++
	h.dialled = time.Now()
	h.s.about.Advise("")
	conn, err := h.s.svc.dial(h.s.ctx, h.s.about, h.s.open.Config)
	if err != nil {
		return err
	}
	if !h.s.setConn(conn) {
		return errClosing
	}
	h.conn = conn
	return nil
}

func (h *handshake) redial() error {
	h.s.closeWithin(h.conn)
	h.held = nil
	return h.dial()
}
