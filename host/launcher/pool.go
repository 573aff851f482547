package launcher

import (
	"context"
	"time"
)

// This file decides which process a session gets.
//
// A plugin that can hold several sessions has one process for all servers of
// its kind, the others one process per session; a server's isolate setting
// overrides that. Which of the two holds is known once a plugin has described
// itself, and for that it must run. So the first process of a kind is started
// on nobody's account, and is then the kind's spare: whoever comes first gets
// it, and when nobody comes it is stopped after a while.

// A family is what is known and what runs of one kind. Guarded by Launcher.mu.
type family struct {
	exe    *executable  // what the rest was started from
	about  *Description // nil: not yet known
	shared *process     // takes new sessions; nil if there is none
	spare  *process     // described itself and has done nothing else
	flight *flight      // a spare that is being started
}

// A flight is the start of a spare, which ends when nobody waits for it any
// more.
type flight struct {
	done    chan struct{}
	err     error // valid after done
	waiting int   // guarded by Launcher.mu
	cancel  context.CancelFunc
}

// maxTries bounds how often one caller waits for a spare that others take or
// that dies at once.
const maxTries = 8

// acquire returns a process for a session, started if need be. Own says that
// it is the session's alone, to be stopped with it; a shared one is given
// back with release. Isolate nil leaves it to the plugin. The error is an
// *session.End.
func (l *Launcher) acquire(ctx context.Context, kind string, isolate *bool) (p *process, own bool, err error) {
	for range maxTries {
		exe, err := l.find(kind)
		if err != nil {
			return nil, false, err
		}
		l.mu.Lock()
		f := l.family(kind, exe)
		if f.about != nil {
			own := !f.about.MultiSession
			if isolate != nil {
				own = *isolate
			}
			if p := f.take(own); p != nil {
				l.mu.Unlock()
				return p, own, nil
			}
			if own {
				l.mu.Unlock()
				p, err := l.launch(ctx, kind, exe)
				return p, true, err
			}
		}
		fl := l.board(f, kind, exe)
		l.mu.Unlock()
		if err := l.wait(ctx, kind, fl); err != nil {
			return nil, false, err
		}
	}
	return nil, false, gone("plugin %q was started %d times, and each time it ended at once", kind, maxTries)
}

// borrow returns any process of a kind for a question that needs no session.
func (l *Launcher) borrow(ctx context.Context, kind string) (p *process, release func(), err error) {
	for range maxTries {
		exe, err := l.find(kind)
		if err != nil {
			return nil, nil, err
		}
		l.mu.Lock()
		f := l.family(kind, exe)
		for _, p := range []*process{f.spare, f.shared} {
			if p != nil && p.alive() {
				p.hold()
				l.mu.Unlock()
				return p, func() { l.release(p) }, nil
			}
		}
		fl := l.board(f, kind, exe)
		l.mu.Unlock()
		if err := l.wait(ctx, kind, fl); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, gone("plugin %q was started %d times, and each time it ended at once", kind, maxTries)
}

// known returns the description of kind if its executable has not changed
// since it was given, and else nil.
func (l *Launcher) known(kind string) *Description {
	exe, err := l.find(kind)
	if err != nil {
		return nil // the way that starts it reports that
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.family(kind, exe).about
}

// family returns what holds for processes that are started from exe. What was
// started from another file gets no new sessions. The caller holds mu.
func (l *Launcher) family(kind string, exe *executable) *family {
	f := l.families[kind]
	if f != nil && f.exe.same(exe) {
		return f
	}
	if f != nil && f.spare != nil && f.spare.users == 0 {
		f.spare.expire(0)
	}
	f = &family{exe: exe}
	l.families[kind] = f
	return f
}

// take returns a process for a session, or nil if one must be started. The
// caller holds mu.
func (f *family) take(own bool) *process {
	if !own && f.shared != nil && f.shared.alive() {
		f.shared.hold()
		return f.shared
	}
	p := f.spare
	if p == nil || !p.alive() || own && p.users > 0 {
		return nil
	}
	f.spare = nil
	p.hold()
	if !own {
		f.shared = p
	}
	return p
}

// hold counts a user, and keeps the process from expiring. The caller holds mu.
func (p *process) hold() {
	p.users++
	if p.idle != nil {
		p.idle.Stop()
		p.idle = nil
	}
}

// expire stops the process after a while unless it is used again. The caller
// holds mu.
func (p *process) expire(after time.Duration) {
	if p.idle != nil {
		p.idle.Stop()
	}
	l := p.launcher
	p.idle = time.AfterFunc(after, func() {
		if l.enter() != nil {
			return // Close stops it
		}
		defer l.running.Done()
		l.mu.Lock()
		idle := p.users == 0
		if idle {
			l.forget(p)
		}
		l.mu.Unlock()
		if idle {
			p.stop(context.Background())
		}
	})
}

// release gives back a process that was borrowed or is shared.
func (l *Launcher) release(p *process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.users--
	if p.users == 0 && !l.closed && p.alive() {
		p.expire(l.timing.idle)
	}
}

// forget takes p out of its family: it gets no new users. The caller holds mu.
func (l *Launcher) forget(p *process) {
	if f := l.families[p.kind]; f != nil {
		if f.shared == p {
			f.shared = nil
		}
		if f.spare == p {
			f.spare = nil
		}
	}
}

// retire forgets a process that has ended or is about to.
func (l *Launcher) retire(p *process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(p)
	if p.idle != nil {
		p.idle.Stop()
		p.idle = nil
	}
}

// bury is called when nothing is left of a process.
func (l *Launcher) bury(p *process) {
	l.mu.Lock()
	delete(l.live, p)
	l.mu.Unlock()
	l.estate.remove(p)
	close(p.gone)
}

// board joins the flight of a family, or starts one. The caller holds mu.
func (l *Launcher) board(f *family, kind string, exe *executable) *flight {
	if f.flight == nil || f.flight.waiting == 0 { // the latter is being cancelled
		ctx, cancel := context.WithCancel(l.ctx)
		fl := &flight{done: make(chan struct{}), cancel: cancel}
		f.flight = fl
		if l.closed {
			fl.err = errClosing
			close(fl.done)
			cancel()
		} else {
			l.running.Go(func() { l.fly(ctx, f, fl, kind, exe) })
		}
	}
	f.flight.waiting++
	return f.flight
}

// fly starts a process and makes it the family's spare.
func (l *Launcher) fly(ctx context.Context, f *family, fl *flight, kind string, exe *executable) {
	defer fl.cancel()
	defer close(fl.done)
	p, err := l.launch(ctx, kind, exe)
	fl.err = err
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.flight == fl {
		f.flight = nil
	}
	if err != nil {
		return
	}
	f.about = p.about
	if l.closed {
		return // Close stops it
	}
	if f.spare == nil && l.families[kind] == f {
		f.spare = p
		p.expire(l.timing.idle)
	} else {
		p.expire(0)
	}
}

// wait waits for a flight. If nobody else does when ctx ends, it cancels the
// flight and waits until that has landed, which a kill makes short.
func (l *Launcher) wait(ctx context.Context, kind string, fl *flight) error {
	var err error
	select {
	case <-fl.done:
		err = fl.err
	case <-ctx.Done():
		err = gone("plugin %q has not started yet: %v", kind, context.Cause(ctx))
	}
	l.mu.Lock()
	fl.waiting--
	last := fl.waiting == 0
	l.mu.Unlock()
	if last {
		fl.cancel()
		patience := time.NewTimer(l.timing.settle)
		defer patience.Stop()
		select {
		case <-fl.done:
		case <-patience.C:
		}
	}
	return err
}
