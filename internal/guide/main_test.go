package main

import (
	"fmt"
	"net"
	"os"
	"sync"
	"testing"

	"github.com/hermes-host/hermes-host/shared/plugintest"
)

// The test program is the plugin, too: the suite starts it again.
func TestMain(m *testing.M) {
	if os.Getenv("BE_THE_PLUGIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestAcceptance(t *testing.T) {
	plugintest.Run(t, plugintest.Suite{
		Binary:      os.Args[0],
		Env:         []string{"BE_THE_PLUGIN=1"},
		Config:      func(t *testing.T) string { return fmt.Sprintf(`{"address": %q}`, servePeer(t)) },
		Invalid:     map[string]string{"address": `{"address": "no port"}`},
		Unreachable: `{"address": "127.0.0.1:1"}`,
	})
}

// servePeer runs the suite's MCP server behind the transport, until the test
// ends, and returns its address.
func servePeer(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	peer := &plugintest.Peer{}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			running.Go(func() {
				defer conn.Close()
				_ = peer.ServeLines(conn, conn) // until the plugin closes it
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		running.Wait()
	})
	return l.Addr().String()
}
