package supervisor

import "time"

// pace decides when the next attempt comes and when enough is enough. Two
// counters do two things: failed counts against the budget and starts anew
// with every session that came up; level is the back-off and falls back only
// after a session that proved itself. A server that starts well and dies at
// once would otherwise be started for ever without a pause.
type pace struct {
	cfg       Config
	failed    int         // attempts in a row
	level     int         // of the back-off; 0: none
	probation bool        // woken without an operator: the first failure or unproven death parks
	deaths    []time.Time // of unproven sessions within CrashLoop.Window
	revivals  int         // waits of the revive timer since the last proven session
}

// full gives everything back, on an operator's word.
func (p *pace) full() { *p = pace{cfg: p.cfg} }

// once leaves one attempt.
func (p *pace) once() { p.failed, p.probation = p.cfg.Retry.Budget-1, true }

// left is how many attempts may still fail before the server parks.
func (p *pace) left() int { return max(0, p.cfg.Retry.Budget-p.failed) }

// arrived notes that a session is ready.
func (p *pace) arrived() { p.failed = 0 }

// fail notes a failed attempt and returns the wait before the next; ok is
// false if there should be none.
func (p *pace) fail() (wait time.Duration, ok bool) {
	p.failed++
	p.level++
	if p.left() == 0 {
		return 0, false
	}
	return p.backoff(), true
}

// died notes the end of a session that was ready. Proven, the next attempt may
// come at once. Unproven, it waits as it did before this session.
func (p *pace) died(proven bool, now time.Time) (wait time.Duration, ok bool) {
	if proven {
		*p = pace{cfg: p.cfg, deaths: p.deaths}
		return 0, true
	}
	kept := p.deaths[:0]
	for _, t := range p.deaths {
		if now.Sub(t) < p.cfg.CrashLoop.Window {
			kept = append(kept, t)
		}
	}
	p.deaths = append(kept, now)
	if p.probation || p.looping() {
		return 0, false
	}
	return p.backoff(), true
}

// looping reports whether too many sessions died unproven.
func (p *pace) looping() bool { return len(p.deaths) > p.cfg.CrashLoop.Deaths }

// backoff returns a wait of the present level, up to a quarter more or less at
// random.
func (p *pace) backoff() time.Duration {
	d := grow(p.cfg.Retry.Base, p.cfg.Retry.Max, p.level-1)
	return min(d*3/4+time.Duration(p.cfg.Jitter()*float64(d/2)), p.cfg.Retry.Max)
}

// revive returns how long a parked server waits, up to a tenth more at random,
// and makes the next wait longer.
func (p *pace) revive() time.Duration {
	d := grow(p.cfg.Revive.Min, p.cfg.Revive.Max, p.revivals)
	p.revivals++
	return d + time.Duration(p.cfg.Jitter()*float64(d/10))
}

// grow doubles d n times, up to limit.
func grow(d, limit time.Duration, n int) time.Duration {
	for ; n > 0 && d < limit; n-- {
		d *= 2
	}
	return min(d, limit)
}
