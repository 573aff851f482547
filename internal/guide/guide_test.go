package main

import (
	"os"
	"strings"
	"testing"

	"github.com/hermes-host/hermes-host/shared/plugintest"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// TestGuide: the guide for plugin authors shows this plugin and its test as they
// are.
func TestGuide(t *testing.T) {
	guide, err := os.ReadFile("../../docs/plugin-author-guide.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"main.go", "main_test.go"} {
		code, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(guide), "```go\n"+string(code)+"```\n") {
			t.Errorf("docs/plugin-author-guide.md does not have %s as it is", name)
		}
	}
}

// TestHungUp: people are told that the server closed the connection, and not
// "EOF".
func TestHungUp(t *testing.T) {
	p := plugintest.Start(t, os.Args[0], "BE_THE_PLUGIN=1")
	s := p.Open(t, &transportpb.OpenSession{Config: []byte(`{"address": "` + servePeer(t) + `"}`)})
	s.GoTool("crash", `{}`)
	if end := s.AwaitEnd(); end.GetMessage() != "the server closed the connection" || !end.GetRetryable() {
		t.Errorf("got %v", end)
	}
}
