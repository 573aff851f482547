package host

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// What a supervisor logs goes through the configuration's redaction, whether
// it is a text, an error or a fixed field.
func TestDiscreetLogger(t *testing.T) {
	var out bytes.Buffer
	hide := func(s string) string { return strings.ReplaceAll(s, "s3cret", "…") }
	var log hclog.Logger = discreet{hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Trace}), hide}
	log = log.With("field", "a s3cret").Named("sub")
	log.Warn("died: s3cret", "error", errors.New("token s3cret"), "reason", "s3cret", "attempt", 3)
	log.Trace("s3cret")
	log.Debug("s3cret")
	log.Info("s3cret")
	log.Error("s3cret")
	if got := out.String(); strings.Contains(got, "s3cret") || !strings.Contains(got, "attempt=3") || strings.Count(got, "\n") != 5 {
		t.Errorf("logged:\n%s", got)
	}
}
