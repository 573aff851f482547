//go:build unix

package launcher

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/internal/orphan"
)

// A guard is a process that outlives a killed host for a second and then kills
// the process groups of the plugins that are still there.
//
// The lifeline tells each plugin that the host is gone, and a plugin ends its
// servers in order then. The guard is for those that cannot: a plugin that is
// stopped or hangs, one that ignores its lifeline, a server that ignores the
// end of its input. (Linux's parent death signal is no substitute. It goes to
// one process, the plugin, at the very moment at which that has to end its
// servers, so what those started stays; and it comes when the thread ends that
// started the plugin, not the host.)
//
// It is a shell that reads the groups that come and go from a pipe and acts
// when the pipe ends. Where there is a /proc as on Linux, it first kills what is
// below the plugins, in whatever group, and again what was forked meanwhile:
// while a plugin is there, nothing gets away from it (see estate). Without a shell
// there is no guard.
type guard struct {
	log  hclog.Logger
	home *orphan.Home

	mu     sync.Mutex
	groups map[int]bool
	cmd    *exec.Cmd
	pipe   *os.File // nil: none is running
	broken bool     // it could not be started; said once
}

const guardShell = "/bin/sh"

const guardScript = `trap '' HUP INT TERM
live=
while read -r op id; do
	case $op in
	+) live="$live $id" ;;
	-) rest=
	   for g in $live; do [ "$g" = "$id" ] || rest="$rest $g"; done
	   live=$rest ;;
	esac
done
[ -n "$live" ] || exit 0
sleep 1
exec 2>/dev/null
for round in 1 2 3; do
	tree= next=$live
	while [ -n "$next" ]; do
		now=$next next=
		for p in $now; do
			for f in /proc/"$p"/task/*/children; do
				kids=
				read -r kids <"$f"
				next="$next $kids"
			done
		done
		set -- $next
		next=$* tree="$tree $*"
	done
	more=
	for p in $tree; do kill -s KILL "$p" && more=1; done
	[ -n "$more" ] || break
done
for g in $live; do kill -s KILL -- "-$g"; done
exit 0
`

// guardPatience bounds a write to a guard that does not read.
const guardPatience = time.Second

func newGuard(log hclog.Logger, home *orphan.Home) *guard {
	return &guard{log: log, home: home, groups: make(map[int]bool)}
}

// add puts a group under guard, and starts the guard if none is running.
func (g *guard) add(pgid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups[pgid] = true
	if g.pipe == nil {
		g.start()
		return
	}
	g.tell("+", pgid)
}

// remove releases a group. It is called before the group's leader is reaped.
func (g *guard) remove(pgid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.groups, pgid)
	if g.pipe != nil {
		g.tell("-", pgid)
	}
}

// close ends the guard and waits for it.
func (g *guard) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.end()
}

func (g *guard) start() {
	if g.broken {
		return
	}
	r, w, err := os.Pipe()
	if err != nil {
		g.log.Warn("no guard for plugin processes", "error", err)
		return
	}
	defer r.Close()
	cmd := exec.Command(guardShell, "-c", guardScript)
	cmd.Args[0] = "hermes-guard"
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	cmd.Dir = "/"
	cmd.Stdin = r
	ownGroup(cmd)
	if err := g.home.Start(cmd); err != nil {
		w.Close()
		g.broken = true
		g.log.Debug("no guard for plugin processes", "error", err)
		return
	}
	g.cmd, g.pipe = cmd, w
	for pgid := range g.groups {
		g.tell("+", pgid)
	}
}

func (g *guard) tell(op string, pgid int) {
	if g.pipe == nil {
		return
	}
	_ = g.pipe.SetWriteDeadline(time.Now().Add(guardPatience))
	if _, err := fmt.Fprintf(g.pipe, "%s %d\n", op, pgid); err != nil {
		// Somebody killed or stopped it. The next plugin starts another.
		g.log.Warn("the guard of the plugin processes is gone", "error", err)
		g.end()
	}
}

// end is called when there is nothing left to guard, or to make room for
// another guard. The guard that sees the end of its pipe meanwhile is killed in
// its second of grace, before it acts.
func (g *guard) end() {
	if g.pipe == nil {
		return
	}
	killGroup(g.cmd.Process.Pid)
	g.pipe.Close()
	_ = g.home.Wait(g.cmd)
	g.cmd, g.pipe = nil, nil
}
