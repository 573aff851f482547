package shared

import (
	"time"

	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// Some servers that know only protocol 2026-07-28 leave initialize unanswered,
// as if it were no request. Nothing tells such a server from one that takes its
// time to start, which may be a minute if a program is downloaded first. So the
// question that it would answer follows only when the host is about to give up,
// and on the same connection: a slow server has then had nearly all of its time,
// none is started again, and of the two questions it finds initialize first.

// lateTime is how long before the host gives up server/discover is asked. It is
// less where the host has little patience.
const lateTime = 2 * time.Second

// askLate has server/discover follow a request by initialize that gets no
// answer, where each connection is for one of the two and the host has said
// when it gives up. The function that it returns must be called when initialize
// has ended, with its error; it waits.
func (h *handshake) askLate() (done func(error)) {
	lead := min(lateTime, h.s.patience/4)
	wait := time.Until(h.s.began.Add(h.s.patience - lead))
	// Where a detour has used up the time, a server that is started now is
	// spared the question.
	if wait < lead || h.s.patience == 0 || h.s.hello.discover == "" || h.discovers() != DiscoverFallback {
		return func(error) {}
	}
	asked := make(chan struct{})
	timer := time.AfterFunc(wait, func() {
		defer close(asked)
		h.s.about.Logger.Debug("no answer to initialize; asking by server/discover too")
		params, err := h.discoverParams()
		if err == nil {
			err = h.write(&jsonrpc.Message{ID: discoverID, Method: "server/discover", Params: params})
		}
		if err != nil {
			h.s.about.Logger.Debug("server/discover could not be asked", "error", err)
		}
	})
	return func(err error) {
		if timer.Stop() {
			return
		}
		select {
		case <-asked:
			return
		default:
		}
		if err != nil {
			h.s.closeWithin(h.conn) // ends a write to a server that does not read
		}
		<-asked
	}
}
