package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hermes-host/hermes-host/host/session"
)

// TestMemory: what a plugin's process has learnt, the next one is told. A plugin
// that does not speak of it changes nothing, and one that can't speak any more
// has shown that it was of no use.
func TestMemory(t *testing.T) {
	// Sessions of one process, so that none has to wait for a start.
	w := newWorld(t, fakeCommand("", envMulti+"=1"))
	defer w.closeWithin(w.connect(script{}), 5*time.Second)
	memory := &Memory{}
	connect := func(ctx context.Context, s script) (told string, err error) {
		config, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		spec := Spec{Server: "x", Kind: "fake", Config: config, Memory: memory, ClientVersion: "2025-03-26"}
		c, err := w.Transport(spec).Connect(ctx, &ear{})
		if err != nil {
			return "", err
		}
		defer w.closeWithin(c, 5*time.Second)
		r, err := c.Call(ctx, session.Request{Method: "open"})
		if err != nil {
			t.Fatal(err)
		}
		return string(r.Result), nil
	}
	for i, step := range []struct {
		script       script
		told, advice string // told is empty: there is no session
	}{
		{script{Learn: "one"}, `["","2025-03-26"]`, "one"},
		{script{Init: "end"}, "", "one"}, // the plugin would have said it
		{script{}, `["one","2025-03-26"]`, ""},
		{script{Learn: "two"}, `["one","2025-03-26"]`, "two"},
		{script{Learn: "-"}, `["two","2025-03-26"]`, ""},
		{script{Learn: strings.Repeat("x", maxLearnt+1)}, `["","2025-03-26"]`, strings.Repeat("x", maxAdvice)},
		{script{Learn: "three"}, `["","2025-03-26"]`, "three"},
		{script{Init: "never"}, "", "three"},
		{script{Learn: "four"}, `["","2025-03-26"]`, "four"},
		{script{Init: "exit"}, "", "four"},
		{script{Learn: "five"}, `["","2025-03-26"]`, "five"},
	} {
		patience := 20 * time.Second
		if step.script.Init == "never" {
			patience = 500 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		told, err := connect(ctx, step.script)
		cancel()
		if told != step.told || (err != nil) != (step.told == "") {
			t.Errorf("step %d: the plugin was told %s, want %s; %v", i, told, step.told, err)
		}
		if got := memory.Advice(); got != step.advice {
			t.Errorf("step %d: advice %q, want %q", i, got, step.advice)
		}
	}

	// An attempt that is called off says nothing about what it was told.
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(300*time.Millisecond, func() { cancel(errors.New("parked")) })
	if _, err := connect(ctx, script{Init: "never"}); err == nil {
		t.Error("there is a session")
	}
	if got, err := connect(t.Context(), script{}); err != nil || got != `["five","2025-03-26"]` {
		t.Errorf("the plugin was told %s, %v", got, err)
	}
}
