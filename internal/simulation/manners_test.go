package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hermes-host/hermes-host/host/catalog"
	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// manners say how a world behaves: places in the tables below. The first of
// each is good.
type manners struct {
	dial, call, list, health int
	close                    time.Duration // what ending a session takes
}

// random returns manners of which about half are good.
func random(rng *rand.Rand) manners {
	pick := func(n int) int {
		if rng.IntN(5) < 2 {
			return 0
		}
		return rng.IntN(n)
	}
	return manners{
		dial: pick(len(dials)), call: pick(len(calls)), list: pick(len(lists)), health: pick(len(healths)),
		close: []time.Duration{0, 0, time.Second, time.Minute}[rng.IntN(4)],
	}
}

func (m manners) String() string {
	return fmt.Sprintf("dialled it %s, called it %s, listed it %s, checked it %s, closing takes %s",
		dials[m.dial].name, calls[m.call].name, lists[m.list].name, healths[m.health].name, m.close)
}

var dials = []struct {
	name string
	play func(context.Context, *world) error
	dies time.Duration // the session's life; 0: until something ends it; -1: it arrives dead
}{
	{"answers", dialed(0, nil), 0},
	{"refuses", dialed(0, gone("connection refused")), 0},
	{"hangs", func(ctx context.Context, w *world) error { return w.wait(ctx, 0) }, 0},
	{"is slow", dialed(3*time.Second, nil), 0},
	{"is very slow", dialed(29*time.Second, nil), 0},
	{"is too slow", dialed(31*time.Second, nil), 0},
	{"breaks the handshake off", dialed(700*time.Millisecond, errors.New("end of stream in the handshake")), 0},
	{"wants an authorization", dialed(0, &session.End{Class: session.Auth, Message: "401"}), 0},
	{"does not exist", dialed(0, &session.End{Class: session.ConfigFault, Message: "no such command"}), 0},
	{"shows a web page", dialed(100*time.Millisecond, &session.End{Class: session.Protocol, Message: "an HTML page"}), 0},
	{"gives up", dialed(0, &session.End{Class: session.Gone, Message: "hopeless"}), 0},
	{"arrives dead", dialed(0, nil), -1},
	{"dies at once", dialed(0, nil), time.Millisecond},
	{"dies young", dialed(0, nil), 2 * time.Second},
	{"comes when nobody waits any more", func(ctx context.Context, w *world) error { _ = w.wait(ctx, 0); return nil }, 0},
}

func dialed(takes time.Duration, err error) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		if takes > 0 {
			if err := w.wait(ctx, takes); err != nil {
				return err
			}
		}
		return err
	}
}

var calls = []struct {
	name string
	play func(context.Context, *sess, session.Request) (session.Reply, error)
}{
	{"answers", acts(0, nil)},
	{"answers slowly", acts(5*time.Second, nil)},
	{"hangs", func(ctx context.Context, s *sess, req session.Request) (session.Reply, error) {
		s.w.h.act(req)
		return answer(req, s.wait(ctx, 0))
	}},
	{"hangs before it acts", func(ctx context.Context, s *sess, req session.Request) (session.Reply, error) {
		err := s.wait(ctx, 0)
		if err == nil {
			s.w.h.act(req)
		}
		return answer(req, err)
	}},
	{"refuses the connection", fails(session.Failuref(true, "connection refused"), nil)},
	{"has died", fails(session.Failuref(true, "broken pipe"), gone("broken pipe"))},
	{"dies of it", func(_ context.Context, s *sess, req session.Request) (session.Reply, error) {
		s.w.h.act(req)
		s.die(gone("crashed"))
		return session.Reply{}, session.Failuref(false, "end of stream")
	}},
	{"dies of it, as one hears soon", crashes(20 * time.Millisecond)},
	{"dies of it, as one hears late", crashes(400 * time.Millisecond)},
	{"acts and answers 502", acts(0, &session.Failure{Reason: session.HTTPStatus, Message: "502"})},
	{"wants an authorization", fails(&session.Failure{Reason: session.NeedsAuth, Message: "403", Undelivered: true}, nil)},
	{"has forgotten the session", fails(&session.Failure{Reason: session.SessionLost, Message: "404", Undelivered: true},
		&session.End{Class: session.Lost, Message: "404", Retryable: true})},
	{"answers too much", acts(0, &session.Failure{Reason: session.Oversize, Message: "5 GB"})},
	{"answers with an error", func(_ context.Context, s *sess, req session.Request) (session.Reply, error) {
		s.w.h.act(req)
		return session.Reply{Error: jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s", req.Params)}, nil
	}},
}

// acts acts on a call and answers, or fails, after a while.
func acts(takes time.Duration, err error) func(context.Context, *sess, session.Request) (session.Reply, error) {
	return func(ctx context.Context, s *sess, req session.Request) (session.Reply, error) {
		s.w.h.act(req)
		if takes > 0 {
			if err := s.wait(ctx, takes); err != nil {
				return session.Reply{}, err
			}
		}
		return answer(req, err)
	}
}

// fails fails a call without acting on it, and ends the session if there is an
// end.
func fails(err error, end *session.End) func(context.Context, *sess, session.Request) (session.Reply, error) {
	return func(_ context.Context, s *sess, _ session.Request) (session.Reply, error) {
		if end != nil {
			s.die(end)
		}
		return session.Reply{}, err
	}
}

// crashes acts on a call and takes the server away, of which the session hears
// later.
func crashes(later time.Duration) func(context.Context, *sess, session.Request) (session.Reply, error) {
	return func(_ context.Context, s *sess, req session.Request) (session.Reply, error) {
		s.w.h.act(req)
		s.kill(later)
		return session.Reply{}, session.Failuref(false, "end of stream")
	}
}

// kill takes the server away.
func (s *sess) kill(later time.Duration) {
	s.crashed.Do(func() {
		s.w.h.event("the server of session %d is gone", s.n)
		close(s.crash)
		time.AfterFunc(later, func() { s.die(exited()) })
	})
}

// answer repeats the request, so that the caller can tell whose answer it got.
func answer(req session.Request, err error) (session.Reply, error) {
	if err != nil {
		return session.Reply{}, err
	}
	return session.Reply{Result: json.RawMessage(req.Params)}, nil
}

var lists = []struct {
	name string
	play func(context.Context, *sess, catalog.Kind) (*jsonrpc.Error, error)
}{
	{"answers", func(context.Context, *sess, catalog.Kind) (*jsonrpc.Error, error) { return nil, nil }},
	{"fails", func(context.Context, *sess, catalog.Kind) (*jsonrpc.Error, error) {
		return nil, session.Failuref(false, "list failed")
	}},
	{"hangs", func(ctx context.Context, s *sess, _ catalog.Kind) (*jsonrpc.Error, error) { return nil, s.wait(ctx, 0) }},
	{"hangs over its prompts", func(ctx context.Context, s *sess, kind catalog.Kind) (*jsonrpc.Error, error) {
		if kind != catalog.Prompts {
			return nil, nil
		}
		return nil, s.wait(ctx, 0)
	}},
	{"is slow", func(ctx context.Context, s *sess, _ catalog.Kind) (*jsonrpc.Error, error) {
		return nil, s.wait(ctx, 2*time.Second)
	}},
	{"dies of it", func(_ context.Context, s *sess, _ catalog.Kind) (*jsonrpc.Error, error) {
		s.die(gone("died while listing"))
		return nil, session.Failuref(false, "end of stream")
	}},
	{"answers with an error", func(context.Context, *sess, catalog.Kind) (*jsonrpc.Error, error) {
		return jsonrpc.Errorf(jsonrpc.CodeInternalError, "out of order"), nil
	}},
	{"wants an authorization", func(context.Context, *sess, catalog.Kind) (*jsonrpc.Error, error) {
		return nil, &session.Failure{Reason: session.NeedsAuth, Message: "401", Undelivered: true}
	}},
}

var healths = []struct {
	name string
	play func(context.Context, *sess) error
}{
	{"answers", func(context.Context, *sess) error { return nil }},
	{"hangs", func(ctx context.Context, s *sess) error { return s.wait(ctx, 0) }},
	{"fails", func(context.Context, *sess) error { return session.Failuref(false, "connection reset") }},
	{"dies of it", func(_ context.Context, s *sess) error { s.die(gone("died of a ping")); return nil }},
}
