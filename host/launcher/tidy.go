package launcher

import (
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/internal/orphan"
	"github.com/hermes-host/hermes-host/internal/pluginrpc"
)

// An estate is what plugins leave behind outside their process groups, such as
// a daemon that made a session of its own, and ends it. Launchers of one process
// share it: nobody can tell whose an adopted process is, nor whose child one
// that was not adopted.
//
// A plugin with the feature no-orphans keeps such processes below it, and ends
// them itself. When it is killed they become children of this process, if that
// is their home (Settings.Adopt). Nobody can tell from whom an adopted process
// came; but if every plugin that lives has the feature, it came from none of
// them. Otherwise it may be one that a living plugin of a third party still
// needs, and is left alone until that plugin has ended too.
type estate struct {
	home *orphan.Home // nil: this process adopts nothing
	log  hclog.Logger

	mu     sync.Mutex
	live   map[*process]bool // plugins that run; true: it has the feature
	untidy bool              // something may have been left behind
}

func newEstate(adopt bool, log hclog.Logger) *estate {
	e := &estate{log: log, live: map[*process]bool{}}
	if adopt {
		var err error
		if e.home, err = orphan.Adopt(); err != nil {
			log.Debug("what leaves its process group is not found after the death of a plugin", "error", err)
		}
	}
	return e
}

// add counts a plugin that is about to be started.
func (e *estate) add(p *process) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.live[p] = false
}

// described notes that a plugin has described itself.
func (e *estate) described(p *process) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.live[p] = slices.Contains(p.about.Features, pluginrpc.FeatureNoOrphans)
	e.tidy()
}

// remove is called when nothing is left of a plugin's process.
func (e *estate) remove(p *process) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.live, p)
	e.untidy = true
	e.tidy()
}

// tidy kills what dead plugins have left behind, as soon as it is known to be
// theirs. The caller holds e.mu, so that no plugin starts meanwhile.
func (e *estate) tidy() {
	if e.home == nil || !e.untidy {
		return
	}
	for _, tame := range e.live {
		if !tame {
			return
		}
	}
	e.untidy = false
	if n := e.home.Kill(); n > 0 {
		e.log.Info("killed what a plugin has left behind", "processes", n)
	}
}
