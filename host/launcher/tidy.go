package launcher

import (
	"slices"

	"github.com/hermes-host/hermes-host/internal/pluginrpc"
)

// This file ends what the processes of a dead plugin have left behind outside
// the plugin's process group: a daemon that made a session of its own.
//
// A plugin with the feature no-orphans keeps such processes below it, and ends
// them itself. When it is killed they become children of this process, if that
// is their home (Settings.Adopt). Nobody can tell from whom an adopted process
// came; but if every plugin that lives has the feature, it came from none of
// them. Otherwise it may be one that a living plugin of a third party still
// needs, and is left alone until that plugin has ended too.

// tidy kills what dead plugins have left behind, now or as soon as it is known
// to be theirs. It is called when a plugin has ended, and when one has described
// itself.
func (l *Launcher) tidy(ended bool) {
	if l.home == nil {
		return
	}
	l.mu.Lock()
	l.untidy = l.untidy || ended
	sure := l.untidy
	for p := range l.live {
		sure = sure && p.tame
	}
	if sure {
		l.untidy = false
	}
	l.mu.Unlock()
	if !sure {
		return
	}
	if n := l.home.Kill(); n > 0 {
		l.log.Info("killed what a plugin has left behind", "processes", n)
	}
}

// tamed notes that a plugin has described itself.
func (l *Launcher) tamed(p *process) {
	l.mu.Lock()
	p.tame = slices.Contains(p.about.Features, pluginrpc.FeatureNoOrphans)
	l.mu.Unlock()
	l.tidy(false)
}
