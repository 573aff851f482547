package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermes-host/hermes-host/internal/private"
)

// A NoHostError says that no host runs that could be asked.
type NoHostError struct {
	Config  string // the configuration that was asked for; empty: any
	Running []Info // hosts that run, with other configurations or several
}

// Error says what runs instead, and what to do. Hosts with one configuration
// are told apart by their sockets.
func (e *NoHostError) Error() string {
	msg := "no host is running"
	if e.Config != "" {
		msg += " with " + e.Config
	}
	if len(e.Running) == 0 {
		return msg + "; start one with \"hermes-host run\""
	}
	if e.Config == "" {
		msg = "several hosts are running"
	}
	same := map[string]int{}
	for _, found := range e.Running {
		same[found.Config]++
	}
	var all []string
	for _, found := range e.Running {
		if same[found.Config] > 1 {
			all = append(all, fmt.Sprintf("\n  --socket %s (process %d, with %s)", found.Socket, found.PID, found.Config))
		} else {
			all = append(all, fmt.Sprintf("\n  --config %s (process %d)", found.Config, found.PID))
		}
	}
	return msg + "; these are:" + strings.Join(all, "")
}

// looking bounds how long each socket may take to say whose it is.
const looking = 2 * time.Second

// Find returns a client of the host with a configuration. With an empty one it
// finds the only host that runs. The error is a *NoHostError if there is none,
// or more than one.
func Find(ctx context.Context, config string) (*Client, error) {
	if config != "" {
		name, err := nameOf(config)
		if err != nil {
			return nil, err
		}
		// The one to join comes first, then those that go by it.
		for _, dir := range dirs() {
			paths, _ := filepath.Glob(filepath.Join(dir, name+"*"+socketSuffix))
			slices.SortFunc(paths, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
			for _, path := range paths {
				if c := NewClient(path); c.lives(ctx) {
					return c, nil
				}
			}
		}
		abs, _ := filepath.Abs(config)
		return nil, &NoHostError{Config: abs, Running: Running(ctx)}
	}
	running := Running(ctx)
	if len(running) == 1 {
		return NewClient(running[0].Socket), nil
	}
	return nil, &NoHostError{Running: running}
}

// Shared returns a client of the host with a configuration that others may
// join, a *NoHostError if there is none.
func Shared(ctx context.Context, config string) (*Client, error) {
	name, err := nameOf(config)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs() {
		if c := NewClient(filepath.Join(dir, name+socketSuffix)); c.lives(ctx) {
			return c, nil
		}
	}
	return nil, &NoHostError{Config: config}
}

func (c *Client) lives(ctx context.Context) bool {
	if _, err := os.Lstat(c.Path); err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, looking)
	defer cancel()
	_, err := c.Info(ctx)
	_, refused := errors.AsType[*Error](err)
	return err == nil || refused
}

// Running returns all hosts of this user that run.
func Running(ctx context.Context) []Info {
	var mu sync.Mutex
	var all []Info
	var asking sync.WaitGroup
	for _, dir := range dirs() {
		paths, _ := filepath.Glob(filepath.Join(dir, "*"+socketSuffix))
		for _, path := range paths {
			asking.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, looking)
				defer cancel()
				if info, err := NewClient(path).Info(ctx); err == nil {
					mu.Lock()
					all = append(all, info)
					mu.Unlock()
				}
			})
		}
	}
	asking.Wait()
	slices.SortFunc(all, func(a, b Info) int {
		return cmp.Or(cmp.Compare(a.Config, b.Config), cmp.Compare(a.PID, b.PID), cmp.Compare(a.Socket, b.Socket))
	})
	return all
}

// dirs returns where sockets of this user's hosts may be: the environment of
// whoever asks may lack the variable that the host's had, or have one that it
// lacked.
func dirs() []string {
	places := []string{Dir(""), tempDir()}
	if uid := os.Getuid(); uid >= 0 && os.Getenv("XDG_RUNTIME_DIR") == "" {
		places = append(places, filepath.Join("/run/user", strconv.Itoa(uid), dirName))
	}
	var own []string
	for _, dir := range places {
		if !slices.Contains(own, dir) && private.Dir(dir) {
			own = append(own, dir)
		}
	}
	return own
}
