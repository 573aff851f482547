package host

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
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
	h.running.Go(func() {
		defer w.Close()
		h.follow(ctx, w, path)
	})
}

func (h *Host) follow(ctx context.Context, w *fsnotify.Watcher, path string) {
	seen := digest(path)
	target := ""
	aim := func() { // at what a link links to
		real, err := filepath.EvalSymlinks(path)
		if err != nil || real == path {
			real = ""
		}
		if real == target {
			return
		}
		if target != "" && filepath.Dir(target) != filepath.Dir(path) {
			_ = w.Remove(filepath.Dir(target)) // it may have gone
		}
		if target = real; target != "" {
			_ = w.Add(filepath.Dir(target)) // without it, a change of the link is still seen
		}
	}
	aim()
	timer := time.NewTimer(calm)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.Events:
			// In a directory of links everything matters: what changes may
			// be a link on the way.
			if ok && e.Op != fsnotify.Chmod && (target != "" || filepath.Base(e.Name) == filepath.Base(path)) {
				timer.Reset(calm)
			}
			if !ok {
				return
			}
		case err, ok := <-w.Errors:
			if !ok {
				return
			}
			h.log.Warn("watching the configuration file", "error", err)
			timer.Reset(calm) // an overflow: something may have been missed
		case <-timer.C:
			aim()
			now := digest(path)
			if now == nil || bytes.Equal(now, seen) {
				continue // gone for the moment, or touched only
			}
			seen = now
			_, _ = h.Reload(ctx, "a change of its file", false) // it logs
		}
	}
}

// digest returns a checksum of the file, nil if it can't be read.
func digest(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, watched)); err != nil {
		return nil
	}
	return sum.Sum(nil)
}
