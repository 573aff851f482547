package main

import (
	"bytes"
	"fmt"
	"os"
)

// A mutation is one breakage. It replaces old, which must be in the file
// exactly once.
type mutation struct {
	what     string
	file     string
	old, new string
}

// apply returns the broken file.
func (m mutation) apply() ([]byte, error) {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return nil, fmt.Errorf("%q: %w (run it from the module's root)", m.what, err)
	}
	if n := bytes.Count(text, []byte(m.old)); n != 1 {
		return nil, fmt.Errorf("%q: the code that it replaces is %d times in %s; adapt it:\n%s", m.what, n, m.file, m.old)
	}
	return bytes.Replace(text, []byte(m.old), []byte(m.new), 1), nil
}

const (
	circuit = "breaker/breaker.go"
	loop    = "host/supervisor/supervisor.go"
	connect = "host/supervisor/connect.go"
	call    = "host/supervisor/call.go"
	park    = "host/supervisor/park.go"
	pace    = "host/supervisor/backoff.go"
	refresh = "host/supervisor/refresh.go"
	outcome = "host/supervisor/outcome.go"
	filter  = "host/supervisor/filter.go"
	health  = "host/supervisor/health.go"
	silence = "host/supervisor/silence.go"
	trouble = "host/supervisor/trouble.go"
	mail    = "host/supervisor/messages.go"
	succeed = "host/takeover/takeover.go"
)

var mutations = []mutation{
	// Parking and coming back.
	{"a call's demand is obeyed whichever park it saw", park,
		`m.park == s.parked.number && `, ``},
	{"the loop returns when it parks", loop,
		"\t\ts.tick(time.Now())\n", "\t\ts.tick(time.Now())\n\t\tif s.state == Parked {\n\t\t\treturn nil\n\t\t}\n"},
	{"parking does not trip the breaker", park,
		"\ts.breaker.Trip()\n", ""},
	{"parking does not withdraw the entries", park,
		"\ts.fire(giveUp, reason, cause)\n\ts.unlist()\n", "\ts.fire(giveUp, reason, cause)\n"},
	{"withdrawing does not wait for a list that is being fetched", park,
		"\tif s.listing {\n", "\tif s.listing && s.withdraw {\n"},
	{"a parked server has no revive timer", park,
		"\tif !kind.person() {\n", "\tif kind == NotParked {\n"},
	{"a park that only a person can end has a timer", park,
		"\tif !kind.person() {\n", "\tif kind != NotParked {\n"},
	{"an operator's reconnect of a parked server gives one attempt", connect,
		"\tcase s.state == Parked:\n\t\ts.pace.full()\n", "\tcase s.state == Parked:\n\t\ts.pace.once()\n"},
	{"a reconnect during an attempt is forgotten", connect,
		"\t\ts.again = true\n", "\t\ts.again = false\n"},
	{"a signal that comes while the loop is busy does not wake it", mail,
		"m.bell = make(chan struct{}, 1)", "m.bell = make(chan struct{})"},
	{"a revival buys no attempt, but the whole budget", park,
		"\ts.pace.once()\n\ts.rouse(reviving)\n", "\ts.pace.full()\n\ts.rouse(reviving)\n"},

	// The way of a session.
	{"the breaker is reset before the session is there", connect,
		"\told := s.view.Swap(next)\n\ts.breaker.Reset()\n", "\ts.breaker.Reset()\n\told := s.view.Swap(next)\n"},
	{"a new session does not reset the breaker", connect,
		"\ts.breaker.Reset()\n\tclose(old.changed)\n", "\tclose(old.changed)\n"},
	{"ready before the lists are there", connect,
		"\ts.list(AllLists)\n", "\ts.list(AllLists)\n\ts.ready(l)\n"},
	{"the end of an old session takes the new one down", connect,
		"\tif m.live != s.cur {\n\t\treturn\n\t}\n\ts.drop(m.live.end())\n", "\tif s.cur == nil {\n\t\treturn\n\t}\n\ts.drop(m.live.end())\n"},
	{"a doubt about an old session has the new one checked", health,
		"s.cur.gen == m.gen && ", ""},
	{"events of an old session come through", filter,
		"func (f *filter) retire() { f.closed.Store(true) }", "func (f *filter) retire() {}"},
	{"the next attempt begins while the last session is being closed", loop,
		" || s.closing > 0", ""},
	{"a session that comes for a parked server is not closed", connect,
		"\t\tif d.filter.retire(); m.sess != nil {\n", "\t\tif d.filter.retire(); m.sess != nil && !d.dropped {\n"},
	{"a refresh that failed is not repeated", refresh,
		"\ts.fresh.at = time.Now().Add(wait)\n", ""},
	{"lists that change while they are fetched are not fetched again", refresh,
		"\t\ts.fresh.dirty |= m.which\n\t\ts.plan()\n", "\t\tif !s.listing {\n\t\t\ts.fresh.dirty |= m.which\n\t\t}\n\t\ts.plan()\n"},

	// Budget and back-off.
	{"a session does not give the budget back", pace,
		"func (p *pace) arrived() { p.failed = 0 }", "func (p *pace) arrived() {}"},
	{"a proven session does not set the back-off back", pace,
		"*p = pace{cfg: p.cfg, deaths: p.deaths}", "*p = pace{cfg: p.cfg, deaths: p.deaths, level: p.level}"},
	{"a server that dies young is started for ever", pace,
		"return len(p.deaths) > p.cfg.CrashLoop.Deaths", "return len(p.deaths) < p.cfg.CrashLoop.Deaths-len(p.deaths)-p.cfg.CrashLoop.Deaths"},
	{"a failure that a person must mend is retried", connect,
		"\tcase !end.Retryable:\n\t\ts.park(parkKind(end), end.Message, end)\n\tcase !ok:\n\t\ts.park(Resting, end.Message, end)\n\tdefault:\n\t\ts.nextAt = time.Now().Add(wait)\n",
		"\tcase !ok:\n\t\ts.park(Resting, end.Message, end)\n\tdefault:\n\t\ts.nextAt = time.Now().Add(wait)\n"},

	// Shutdown.
	{"a reconnect wins over the shutdown", loop,
		"\t\t\t\tif ctx.Err() == nil {\n\t\t\t\t\tm.apply(s)\n\t\t\t\t}\n", "\t\t\t\tm.apply(s)\n"},
	{"the shutdown does not withdraw the entries", loop,
		"\t\ts.leftover(m)\n\t}\n\ts.unlist()\n", "\t\ts.leftover(m)\n\t}\n"},
	{"a session that comes during the shutdown is not closed", loop,
		"\t\tif m.sess != nil {\n\t\t\ts.close(m.sess)\n", "\t\tif m.sess != nil && s.state != Stopped {\n\t\t\ts.close(m.sess)\n"},

	// Calls.
	{"calls are sent to a session that is known to be dead", call,
		"if l == nil || l.dead() || ", "if l == nil || "},
	{"a call does not end with its session", call,
		"\tdefer context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })()\n", ""},
	{"a request that may have been carried out is sent again", outcome,
		"lostSent:   {breaker.Neutral, ifIdempotent}", "lostSent:   {breaker.Neutral, always}"},
	{"a request that cannot have been carried out is not sent again", outcome,
		"lostUnsent: {breaker.Neutral, always}", "lostUnsent: {breaker.Neutral, never}"},
	{"the error of a second sending hides that the first may have been carried out", call,
		"end.unsent() && !errors.As", "!errors.As"},
	{"so does the refusal of a second sending as the caller gives up", call,
		"gaveUp := ctx.Err() != nil && errors.Is(again, context.Cause(ctx))", "gaveUp := ctx.Err() != nil"},
	{"a caller who gives up counts as a failure", outcome,
		"cancelled:  {breaker.Neutral, never}", "cancelled:  {breaker.Failure, never}"},
	{"a refusal for want of authorization counts as a failure", outcome,
		"noAuth:     {breaker.Neutral, never}", "noAuth:     {breaker.Failure, never}"},
	{"a probe that finds no session does not re-arm the cooldown", call,
		"\t\t\tticket.Settle(breaker.Failure)\n", "\t\t\tticket.Settle(breaker.Neutral)\n"},
	{"a probe that finds the server parked asks for nothing", call,
		"\t\t\ts.mail.post(demand{asked})\n", ""},
	{"a probe whose caller leaves keeps its slot", call,
		"\t\tticket.Settle(breaker.Neutral)\n\t\treturn session.Reply{}, local, nil, err\n", "\t\treturn session.Reply{}, local, nil, err\n"},
	{"the breaker's opening does not have the session checked", loop,
		"to == breaker.Open && l != nil", "to == breaker.Open && l != nil && l.dead()"},

	// Servers that hang.
	{"a server that hangs goes unnoticed while its callers give up", call,
		"\tcase cancelled:\n\t\ts.doubt(l, silent)\n", "\tcase cancelled:\n"},
	{"calls go to a session while it is being checked", silence,
		"\ts.cur.pulse.hold()\n", "\ts.cur.pulse.release()\n"},
	{"silence begins anew with each call that is given up", silence,
		"d.since = min(d.since, m.since)", "d.since = m.since"},
	{"a call in flight is ended because others were given up", silence,
		"\tcase l.pending.Load() == 0:\n\t\ts.drop(end)\n", "\tcase l.pending.Load() >= 0:\n\t\ts.drop(end)\n"},
	{"a call in flight is ended because the breaker has opened", health,
		"asked && (l.pending.Load() == 0 || ", "asked && (l.pending.Load() >= 0 || "},
	{"a session that does not answer goes on getting calls", call,
		"if end := l.pulse.mute.Load(); end != nil {", "if end := l.pulse.mute.Load(); end != nil && !end.Retryable {"},
	{"the end of its last call does not have such a session checked", call,
		"\t\ts.mail.post(drained{l.gen})\n", ""},
	{"a sign of life does not have it get calls again", silence,
		"\tif s.cur != nil && s.cur.gen == m.gen {\n\t\ts.unmute()\n", "\tif s.cur != nil && s.cur.gen != m.gen {\n\t\ts.unmute()\n"},
	{"the breaker goes on refusing calls while its successor is made", connect,
		"\t\ts.breaker.Reset() // whoever calls now waits for the next session\n", ""},
	{"a session that refuses calls is told with each call", trouble,
		"t.now.Kind == kind && t.now.Text == text:", "t.now.Kind == kind && t.now.Text != text:"},

	// One supervisor takes over from another.
	{"the end of a predecessor withdraws its successor's lists", succeed,
		"\tcase t.retired:\n\tcase t.staged:\n\t\tt.held,", "\tcase t.staged:\n\t\tt.held,"},
	{"a park just before the end withdraws the successor's lists", succeed,
		"\tcase t.next != nil && t.next.ready():\n", ""},
	{"a successor that parked while it waited has its predecessor's lists shown", succeed,
		"\tcase t.withdrawn:\n\t\tt.shelf.Withdraw()\n", ""},
	{"a successor's lists are shown before it is promoted", succeed,
		"\tcase t.staged:\n\t\tt.held, t.withdrawn = t.held.Then(got), false\n", ""},
	{"lists that a predecessor was fetching replace its successor's", succeed,
		"\tcase t.retired:\n\t\treturn errSucceeded\n", ""},
	{"a predecessor goes on taking calls", succeed,
		"\t\tif next == nil {\n\t\t\treturn t.sup.Call(", "\t\tif next != t {\n\t\t\treturn t.sup.Call("},

	// The breaker.
	{"a failed probe does not open the breaker again", circuit,
		"if g.probe || b.failures >= b.cfg.Threshold {", "if b.failures > b.cfg.Threshold || !g.probe && b.failures == b.cfg.Threshold {"},
	{"a probe that succeeds does not close the breaker", circuit,
		"\t\tif g.probe {\n\t\t\tb.become(Closed)\n\t\t}\n", ""},
	{"a neutral outcome counts as a failure", circuit,
		"\tcase Failure:\n\t\tb.failures++\n", "\tcase Failure, Neutral:\n\t\tb.failures++\n"},
	{"a settled probe keeps its slot", circuit,
		"\tif g.probe {\n\t\tb.probe = nil\n\t}\n", ""},
	{"tickets of before a reconnect count", circuit,
		"g.settled || g.epoch != b.epoch || ", "g.settled || "},
	{"everybody is the probe", circuit,
		"\tcase b.probe != nil && now.Before(b.lease):\n", "\tcase b.probe != nil && now.Before(b.lease) && b.failures < 0:\n"},
	{"a probe that is never settled keeps its slot for ever", circuit,
		"\tcase b.probe != nil && now.Before(b.lease):\n", "\tcase b.probe != nil:\n"},
	{"successes do not end a row of failures", circuit,
		"\tcase Success:\n\t\tb.failures = 0\n", "\tcase Success:\n"},
	{"the second trip does not begin a new cooldown", circuit,
		"\tcase Open:\n\t\tb.until = ", "\tcase Open:\n\t\tif b.state == Open {\n\t\t\tbreak\n\t\t}\n\t\tb.until = "},
}
