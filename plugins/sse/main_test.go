package main

import (
	"io"
	"log"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// envPlugin makes the re-executed test binary the plugin.
const envPlugin = "SSE_TEST_PLUGIN"

func TestMain(m *testing.M) {
	if os.Getenv(envPlugin) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// quiet is for servers whose complaints are part of the test.
var quiet = log.New(io.Discard, "", 0)
