package sseconn

import (
	"io"
	"log"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quiet is for servers whose complaints are part of the test.
var quiet = log.New(io.Discard, "", 0)
