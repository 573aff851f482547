package host

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/hermes-host/hermes-host/host/admin"
)

// calm is how long a file must stay as it is before it is read: editors write
// in several steps.
const calm = 250 * time.Millisecond

// watched bounds what is read to see whether the file has changed.
const watched = 4 << 20

// watch reloads the configuration whenever the text of its file has changed,
// until ctx ends. The directory is watched, not the file: many editors, and all
// careful programs, replace the file by another of its name. Where the file is
// a link, that whose name it links to is watched, too.
//
// Nobody is asked before what a file says is applied, so a watched file has to
// say something: one that has gone, or has lost all that was in it, changes
// nothing but log and status. That is what programs leave that write in two
// steps, and full disks.
func (h *Host) watch(ctx context.Context, path string) {
	w, err := fsnotify.NewWatcher()
	if err == nil {
		if err = w.Add(filepath.Dir(path)); err != nil {
			w.Close()
		}
	}
	if err != nil {
		h.log.Warn("the configuration file is not watched; use reload or SIGHUP after a change", "error", err)
		return
	}
	f := &follower{h: h, w: w, path: filepath.Clean(path)}
	f.seen, _, _ = look(path)
	f.aim()
	h.running.Go(func() {
		defer w.Close()
		f.follow(ctx)
	})
}

// A follower follows the changes of one file. All is its goroutine's.
type follower struct {
	h      *Host
	w      *fsnotify.Watcher
	path   string
	target string // what the file links to; empty: it is no link
	seen   []byte // the digest of the text that was read last
}

func (f *follower) follow(ctx context.Context) {
	timer := time.NewTimer(calm)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-f.w.Events:
			if !ok {
				return
			}
			if f.concerns(e) {
				timer.Reset(calm)
			}
		case err, ok := <-f.w.Errors:
			if !ok {
				return
			}
			f.h.log.Warn("watching the configuration file", "error", err)
			timer.Reset(calm) // an overflow: something may have been missed
		case <-timer.C:
			f.aim()
			f.read(ctx)
		}
	}
}

// concerns reports whether the file may be another since an event.
func (f *follower) concerns(e fsnotify.Event) bool {
	switch {
	case e.Op == fsnotify.Chmod && f.h.missing.Load() == nil: // else it may be readable now
		return false
	case f.target != "": // in a directory of links what changes may be one on the way
		return true
	}
	return e.Name == f.path || strings.HasPrefix(f.path, e.Name+string(filepath.Separator))
}

// aim watches the file's directory, as much of it as there is, and that of what
// it links to.
func (f *follower) aim() {
	// A directory that has come in place of another is watched anew. Of one
	// that has gone, those above are, until it is back.
	for dir := filepath.Dir(f.path); f.w.Add(dir) != nil && dir != filepath.Dir(dir); {
		dir = filepath.Dir(dir)
	}
	real, err := filepath.EvalSymlinks(f.path)
	if err != nil || real == f.path {
		real = ""
	}
	if real == f.target {
		return
	}
	if f.target != "" && filepath.Dir(f.target) != filepath.Dir(f.path) {
		_ = f.w.Remove(filepath.Dir(f.target)) // it may have gone
	}
	if f.target = real; f.target != "" {
		_ = f.w.Add(filepath.Dir(f.target)) // without it, a change of the link is still seen
	}
}

// read looks at the file, and has what is new in it applied.
func (f *follower) read(ctx context.Context) {
	now, blank, err := look(f.path)
	f.h.misses(f.path, err)
	if err != nil || bytes.Equal(now, f.seen) {
		return
	}
	f.seen = now
	if blank && len(f.h.Status().Servers) > 0 {
		f.h.refused(changed, &admin.Error{Code: admin.Refused, Message: "the file is empty, which is not taken for the removal of all servers; " +
			"\"hermes-host reload\" does that, or a file with nothing but a comment"})
		return
	}
	_, _ = f.h.Apply(ctx, changed) // it logs
}

// changed is who asks for a reload when the file has changed.
const changed = "a change of its file"

// misses tells, once, that the configuration file can't be read, err saying
// why, or that it can be again.
func (h *Host) misses(path string, err error) {
	was := h.missing.Load()
	if err == nil {
		if was != nil {
			h.missing.Store(nil)
			h.log.Info("the configuration file is back", "path", path)
			h.note("the configuration file is back", "")
		}
		return
	}
	why := "it can't be read"
	if errors.Is(err, fs.ErrNotExist) {
		why = "it is gone"
	}
	if was != nil && was.Why == why {
		return
	}
	h.missing.Store(&admin.Missing{Since: time.Now(), Why: why, Error: err.Error()})
	h.log.Warn("no configuration file; everything goes on as it was", "path", path, "reason", why, "error", err)
	h.note("no configuration file: "+why, err.Error())
}

// look returns a checksum of a file, and whether there is nothing in it.
func look(path string) (digest []byte, blank bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, watched))
	if err != nil {
		return nil, false, err
	}
	sum := sha256.Sum256(text)
	return sum[:], len(bytes.TrimSpace(text)) == 0, nil
}
