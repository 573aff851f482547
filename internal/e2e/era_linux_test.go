package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hermes-host/hermes-host/internal/demo"
)

// TestOlderTransportBehindHTTP: a server that speaks HTTP+SSE alone works behind
// transport "http", with advice in status. That it does is found out once:
// later sessions begin with the stream, though the plugin's process that found
// it out is dead.
func TestOlderTransportBehindHTTP(t *testing.T) {
	t.Parallel()
	server := demo.New()
	handler := mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil)
	var mu sync.Mutex
	var got []string // requests to the configured URL
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "" { // no message of a session
			mu.Lock()
			got = append(got, r.Method)
			mu.Unlock()
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	took := func() []string {
		mu.Lock()
		defer mu.Unlock()
		all := got
		got = nil
		return all
	}
	h := run(t, fmt.Sprintf("server \"old\" {\n  transport \"http\" {\n    url = \"%s/sse\"\n  }\n}\n", web.URL), "old")
	client := h.connect("", nil)
	if n := len(took()); n != 4 {
		t.Errorf("%d requests at the first connect, want the two of the newer transport, a look, and the stream", n)
	}
	for what, end := range map[string]func(){
		"the connection": web.CloseClientConnections,
		"the plugin":     func() { h.find(t, "hermes-transport-http").kill(t) },
	} {
		from := h.mark()
		end()
		h.awaitState(from, "old", "ready")
		if got := callText(t, client, "old__echo", map[string]any{"text": what}); got != what {
			t.Errorf("echo answered %q", got)
		}
		if got := took(); !slices.Equal(got, []string{"GET"}) {
			t.Errorf("after the end of %s the server got %q", what, got)
		}
	}

	var status struct {
		Advice string `json:"advice"`
	}
	if err := json.Unmarshal([]byte(h.operator("status", "old", "-o", "json")), &status); err != nil || !strings.Contains(status.Advice, `transport "sse"`) {
		t.Errorf("advice in the JSON of status: %q, %v", status.Advice, err)
	}
	for _, args := range [][]string{{"status"}, {"status", "old"}} {
		if text := h.operator(args...); !strings.Contains(text, `transport "sse" is the right block`) {
			t.Errorf("no advice in %q:\n%s", args, text)
		}
	}
	if lines := h.warnings("should be changed"); lines != 1 {
		t.Errorf("%d lines of advice in the log, want 1", lines)
	}
}

// warnings counts the lines of the log with a text in their message.
func (h *runningHost) warnings(text string) (n int) {
	h.program.mu.Lock()
	defer h.program.mu.Unlock()
	for _, l := range h.lines {
		if strings.Contains(l.Message, text) {
			n++
		}
	}
	return n
}
