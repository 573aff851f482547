package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// With this variable set, the test program is the server.
const serveEnv = "HERMES_TEST_DEMO_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) != "" {
		if err := Run(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// connect returns a session with a server in this process.
func connect(t *testing.T, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	serverEnd, clientEnd := mcp.NewInMemoryTransports()
	server, err := New().Connect(t.Context(), serverEnd, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, opts).Connect(t.Context(), clientEnd, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		server.Wait()
	})
	return client
}

func call(t *testing.T, c *mcp.ClientSession, tool, args string) (text string, isError bool) {
	t.Helper()
	res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
	if err != nil {
		t.Fatalf("calling %s: %v", tool, err)
	}
	if len(res.Content) != 1 {
		t.Fatalf("calling %s: %d pieces of content, want 1", tool, len(res.Content))
	}
	return res.Content[0].(*mcp.TextContent).Text, res.IsError
}

func TestTools(t *testing.T) {
	c := connect(t, nil)
	tests := []struct {
		tool, args string
		want       string // a regular expression for the whole text
		isError    bool
	}{
		{"echo", `{"text":"héllo"}`, `héllo`, false},
		{"echo", `{"text":""}`, ``, false},
		{"echo", `{}`, `echo needs the argument "text"`, true},
		{"echo", `{"text":7}`, `arguments of echo: .*`, true},
		{"time", `{}`, `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`, false},
		{"time", `{"zone":"Asia/Kolkata"}`, `.*\+05:30`, false},
		{"time", `{"zone":"Atlantis"}`, `no time zone "Atlantis"; .*`, true},
		{"add", `{"numbers":[9007199254740993,9007199254740993]}`, `18014398509481986`, false},
		{"add", `{"numbers":[123456789012345678901234567890,-1]}`, `123456789012345678901234567889`, false},
		{"add", `{"numbers":[]}`, `0`, false},
		{"add", `{"numbers":[1.5]}`, `"1.5" is not a whole number`, true},
		{"uuid", `{}`, `[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`, false},
		{"random_text", `{"size":100}`, `[a-z ]{100}`, false},
		{"random_text", `{}`, `[a-z ]{500}[a-z ]{524}`, false},
		{"random_text", `{"size":0}`, `size is 0; .*`, true},
		{"random_text", `{"size":99999999}`, `size is 99999999; .*`, true},
		{"slow", `{"seconds":0}`, `waited 0 seconds`, false},
		{"slow", `{"seconds":-1}`, `seconds is -1; .*`, true},
	}
	for _, tt := range tests {
		t.Run(tt.tool+tt.args, func(t *testing.T) {
			got, isError := call(t, c, tt.tool, tt.args)
			if isError != tt.isError || !regexp.MustCompile(`^(?:`+tt.want+`)$`).MatchString(got) {
				t.Errorf("got %q (error %v), want %s (error %v)", got, isError, tt.want, tt.isError)
			}
		})
	}
}

func TestEveryToolIsDescribed(t *testing.T) {
	res, err := connect(t, nil).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Tools) != 7 {
		t.Errorf("%d tools, want 7", len(res.Tools))
	}
	for _, tool := range res.Tools {
		if tool.Description == "" || tool.Annotations == nil || tool.Annotations.Title == "" {
			t.Errorf("%s lacks a description or annotations", tool.Name)
		}
		// The host replays calls of read-only tools; crash must not be one.
		if readOnly := tool.Annotations.ReadOnlyHint; readOnly == (tool.Name == "crash") {
			t.Errorf("%s: readOnlyHint is %v", tool.Name, readOnly)
		}
	}
}

// Structured results keep integers that a float64 would round.
func TestAddIsExactOnTheWire(t *testing.T) {
	req := &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: "add"}}
	res, err := sum(t.Context(), req, sumArgs{Numbers: []json.Number{"9007199254740992", "1"}})
	if err != nil {
		t.Fatal(err)
	}
	wire, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	if want := `"structuredContent":{"sum":9007199254740993}`; !strings.Contains(string(wire), want) {
		t.Errorf("%s does not contain %s", wire, want)
	}
}

func TestSlowReportsProgress(t *testing.T) {
	progress := make(chan *mcp.ProgressNotificationParams, 100)
	c := connect(t, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) { progress <- req.Params },
	})
	params := &mcp.CallToolParams{Name: "slow", Arguments: json.RawMessage(`{"seconds":0.35}`)}
	params.SetProgressToken("token")
	if _, err := c.CallTool(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	p := <-progress
	if p.ProgressToken != "token" || p.Total != 0.35 || p.Progress <= 0 || p.Progress > p.Total {
		t.Errorf("progress is %+v", p)
	}
}

func TestSlowStopsWhenCancelled(t *testing.T) {
	c := connect(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "slow", Arguments: json.RawMessage(`{"seconds":60}`)})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v, want the deadline's", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("cancelling took %v", took)
	}
}

func TestContent(t *testing.T) {
	c := connect(t, nil)
	read := func(uri string) string {
		t.Helper()
		res, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err != nil {
			t.Fatal(err)
		}
		return res.Contents[0].Text
	}
	var info struct{ PID int }
	if err := json.Unmarshal([]byte(read("demo://info")), &info); err != nil || info.PID != os.Getpid() {
		t.Errorf("info says process %d (%v), want %d", info.PID, err, os.Getpid())
	}
	if got := read("demo://greeting/Ada%20L"); got != "Hello, Ada L!" {
		t.Errorf("greeting is %q", got)
	}
	if _, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "demo://greeting/"}); err == nil {
		t.Error("a greeting without a name was served")
	}

	prompt, err := c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "try_recovery", Arguments: map[string]string{"tool": "uuid"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := prompt.Messages[0].Content.(*mcp.TextContent).Text; !strings.Contains(got, "call the uuid tool") {
		t.Errorf("the prompt is %q", got)
	}

	completed, err := c.Complete(t.Context(), &mcp.CompleteParams{
		Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: "try_recovery"},
		Argument: mcp.CompleteParamsArgument{Name: "tool", Value: "e"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := completed.Completion.Values; len(got) != 1 || got[0] != "echo" {
		t.Errorf("completing e: %q", got)
	}
}

// The server as a process: it ends in order with its input, and at once, with
// its own exit status, when told to crash.
func TestProcess(t *testing.T) {
	start := func(t *testing.T) (*exec.Cmd, *mcp.ClientSession) {
		t.Helper()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), serveEnv+"=1")
		c, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).
			Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return cmd, c
	}

	t.Run("end of input", func(t *testing.T) {
		cmd, c := start(t)
		if err := c.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
		if code := cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("exit status %d, want 0", code)
		}
	})
	t.Run("crash", func(t *testing.T) {
		cmd, c := start(t)
		if _, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "crash"}); err == nil {
			t.Error("crash answered")
		}
		c.Close()
		if code := cmd.ProcessState.ExitCode(); code != CrashStatus {
			t.Errorf("exit status %d, want %d", code, CrashStatus)
		}
	})
}
