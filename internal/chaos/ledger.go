//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
)

// A ledger holds what callers were told about writes against what servers did.
// Each call has a key of its own, so a key was written once or not at all;
// twice means that the host has sent a write again behind its caller's back.
type ledger struct {
	mu   sync.Mutex
	told map[string]outcome // by "server key"
}

func newLedger() *ledger { return &ledger{told: map[string]outcome{}} }

// note records what the caller of a write was told.
func (l *ledger) note(server, key string, o outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told[server+" "+key] = o
}

// A balance is what the comparison has come to.
type balance struct {
	writes              int // that servers counted
	ok, unsent, unknown int // what callers were told
	unknownDone         int // of the unknown ones, those that were carried out
	wrong               []string
}

// compare reads the servers' file of writes.
func (l *ledger) compare(path string) (balance, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return balance{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var b balance
	done := map[string]int{}
	for line := range strings.Lines(string(data)) {
		key := strings.TrimSpace(line)
		done[key]++
		b.writes++
		if _, ok := l.told[key]; !ok && done[key] == 1 {
			b.wrong = append(b.wrong, fmt.Sprintf("write %s was done, and no call has asked for it", key))
		}
	}
	for key, told := range l.told {
		n := done[key]
		switch {
		case n > 1:
			b.wrong = append(b.wrong, fmt.Sprintf("write %s was done %d times; its caller was told: %s", key, n, told))
		case told == answered && n == 0:
			b.wrong = append(b.wrong, fmt.Sprintf("write %s was not done; its caller was told that it was", key))
		case told == unsent && n == 1:
			b.wrong = append(b.wrong, fmt.Sprintf("write %s was done; its caller was told that it was not sent", key))
		}
		switch told {
		case answered:
			b.ok++
		case unsent:
			b.unsent++
		default:
			b.unknown++
			b.unknownDone += min(n, 1)
		}
	}
	return b, nil
}
