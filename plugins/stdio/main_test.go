package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-host/hermes-host/shared/plugintest"
)

// What the re-executed test binary is.
const (
	envPlugin = "STDIO_TEST_PLUGIN"
	envServer = "STDIO_TEST_SERVER" // a crime of serve
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(envServer) != "":
		serve(os.Getenv(envServer))
		return
	case os.Getenv(envPlugin) != "":
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// serve is an MCP server with the given crimes.
func serve(crimes string) {
	peer := &plugintest.Peer{}
	deaf := false
	for crime := range strings.SplitSeq(crimes, " ") {
		name, arg, _ := strings.Cut(crime, "=")
		switch name {
		case "good":
		case "modern":
			peer.Era = plugintest.ModernOnly
		case "diesAtOnce":
			fmt.Fprintln(os.Stderr, "cannot open the database")
			os.Exit(7)
		case "stderrFlood":
			for range 5000 {
				fmt.Fprintln(os.Stderr, strings.Repeat("f", 200))
			}
		case "grandchild": // holds all the pipes
			c := exec.Command("sleep", arg)
			c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
			if err := c.Start(); err != nil {
				panic(err)
			}
			fmt.Fprintln(os.Stderr, "grandchild", c.Process.Pid)
		case "stubborn": // ignores the end of input and SIGTERM
			signal.Ignore(syscall.SIGTERM)
			deaf = true
		case "mute": // reads and never answers
			for {
				if _, err := os.Stdin.Read(make([]byte, 4096)); err != nil {
					os.Exit(0)
				}
			}
		case "blind": // never reads
			select {}
		case "printsFirst":
			fmt.Println("Server running on stdio")
			fmt.Println()
			fmt.Print("{\"half\": \r\n")
		}
	}
	_ = peer.ServeLines(os.Stdin, os.Stdout) // the pipe broke: the same end
	if deaf {
		time.Sleep(time.Hour)
	}
}
