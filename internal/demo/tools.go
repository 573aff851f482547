package demo

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"os"
	"strings"
	"time"
	_ "time/tzdata" // zones work where the system has no zone files

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// CrashStatus is the exit status of a server whose crash tool was called.
	CrashStatus = 3

	maxTextSize    = 16 << 20 // bytes
	maxSlowSeconds = 600
)

var no = false

// readOnly marks tools that may be called again at will.
func readOnly(title string) *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{Title: title, ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &no}
}

func addTools(s *mcp.Server) {
	add(s, &mcp.Tool{
		Name:        "echo",
		Description: "Returns the text that it is given, unchanged.",
		Annotations: readOnly("Echo"),
		InputSchema: schema(`{"type":"object","properties":{"text":{"type":"string","description":"The text to return."}},"required":["text"]}`),
	}, echo)
	add(s, &mcp.Tool{
		Name:        "time",
		Description: "Tells the current time in a time zone.",
		Annotations: readOnly("Current time"),
		InputSchema: schema(`{"type":"object","properties":{"zone":{"type":"string","description":"A name of the IANA time zone database, such as Europe/Berlin. UTC if left out."}}}`),
	}, now)
	add(s, &mcp.Tool{
		Name:         "add",
		Description:  "Adds whole numbers of any size exactly, also those beyond 2^53 that many JSON readers round.",
		Annotations:  readOnly("Add"),
		InputSchema:  schema(`{"type":"object","properties":{"numbers":{"type":"array","items":{"type":"integer"},"description":"The numbers to add."}},"required":["numbers"]}`),
		OutputSchema: schema(`{"type":"object","properties":{"sum":{"type":"integer"}},"required":["sum"]}`),
	}, sum)
	add(s, &mcp.Tool{
		Name:        "uuid",
		Description: "Makes a new random UUID (version 4).",
		Annotations: &mcp.ToolAnnotations{Title: "New UUID", ReadOnlyHint: true, OpenWorldHint: &no},
		InputSchema: schema(`{"type":"object","properties":{}}`),
	}, uuid)
	add(s, &mcp.Tool{
		Name:        "random_text",
		Description: "Makes random words of a total size, to see how large results travel.",
		Annotations: &mcp.ToolAnnotations{Title: "Random text", ReadOnlyHint: true, OpenWorldHint: &no},
		InputSchema: schema(`{"type":"object","properties":{"size":{"type":"integer","minimum":1,"maximum":16777216,"default":1024,"description":"Size of the text in bytes."}}}`),
	}, randomText)
	add(s, &mcp.Tool{
		Name:        "slow",
		Description: "Waits, reporting progress, and then answers. It stops at once when the call is cancelled.",
		Annotations: readOnly("Slow"),
		InputSchema: schema(`{"type":"object","properties":{"seconds":{"type":"number","minimum":0,"maximum":600,"default":5,"description":"How long to wait."}}}`),
	}, slow)
	add(s, &mcp.Tool{
		Name: "crash",
		Description: "Ends this server's process at once, without an answer, as a crash would. " +
			"The host brings the server back; the next call of any tool works.",
		Annotations: &mcp.ToolAnnotations{Title: "Crash", OpenWorldHint: &no},
		InputSchema: schema(`{"type":"object","properties":{}}`),
	}, crash)
}

// add registers a tool whose arguments decode into A. Arguments that do not
// are an error result that a model can read and act on, not a protocol error.
func add[A any](s *mcp.Server, t *mcp.Tool, h func(context.Context, *mcp.CallToolRequest, A) (*mcp.CallToolResult, error)) {
	s.AddTool(t, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args A
		if raw := req.Params.Arguments; len(raw) > 0 {
			if err := json.Unmarshal(raw, &args); err != nil {
				return failed(fmt.Errorf("arguments of %s: %w", t.Name, err)), nil
			}
		}
		res, err := h(ctx, req, args)
		if err != nil && ctx.Err() == nil {
			return failed(err), nil
		}
		return res, err
	})
}

func failed(err error) *mcp.CallToolResult {
	res := text(err.Error())
	res.IsError = true
	return res
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

type noArgs struct{}

type echoArgs struct {
	Text *string `json:"text"`
}

func echo(_ context.Context, _ *mcp.CallToolRequest, a echoArgs) (*mcp.CallToolResult, error) {
	if a.Text == nil {
		return nil, fmt.Errorf(`echo needs the argument "text"`)
	}
	return text(*a.Text), nil
}

type timeArgs struct {
	Zone string `json:"zone"`
}

func now(_ context.Context, _ *mcp.CallToolRequest, a timeArgs) (*mcp.CallToolResult, error) {
	zone, err := time.LoadLocation(a.Zone)
	if err != nil {
		return nil, fmt.Errorf("no time zone %q; use a name such as Europe/Berlin or UTC", a.Zone)
	}
	return text(time.Now().In(zone).Format(time.RFC3339)), nil
}

type sumArgs struct {
	Numbers []json.Number `json:"numbers"`
}

func sum(_ context.Context, _ *mcp.CallToolRequest, a sumArgs) (*mcp.CallToolResult, error) {
	total := new(big.Int)
	for _, n := range a.Numbers {
		i, ok := new(big.Int).SetString(n.String(), 10)
		if !ok {
			return nil, fmt.Errorf("%q is not a whole number", n)
		}
		total.Add(total, i)
	}
	res := text(total.String())
	res.StructuredContent = json.RawMessage(`{"sum":` + total.String() + `}`)
	return res, nil
}

func uuid(context.Context, *mcp.CallToolRequest, noArgs) (*mcp.CallToolResult, error) {
	var b [16]byte
	rand.Read(b[:])         // never fails
	b[6] = b[6]&0x0f | 0x40 // version 4, RFC 9562 section 5.4
	b[8] = b[8]&0x3f | 0x80 // variant 10
	return text(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])), nil
}

var words = strings.Fields("amber birch candle delta ember fjord garnet harbour iris juniper kelp lantern meadow nettle orchard pebble quartz river saffron tundra umber violet willow yarrow zephyr")

type randomTextArgs struct {
	Size *int `json:"size"`
}

func randomText(_ context.Context, _ *mcp.CallToolRequest, a randomTextArgs) (*mcp.CallToolResult, error) {
	size := 1024
	if a.Size != nil {
		size = *a.Size
	}
	if size < 1 || size > maxTextSize {
		return nil, fmt.Errorf("size is %d; it must be 1 to %d bytes", size, maxTextSize)
	}
	var b strings.Builder
	b.Grow(size + 16)
	for b.Len() < size {
		b.WriteString(words[mathrand.IntN(len(words))])
		b.WriteByte(' ')
	}
	return text(b.String()[:size]), nil
}

type slowArgs struct {
	Seconds *float64 `json:"seconds"`
}

// slow reports progress about ten times, but at most ten times a second.
func slow(ctx context.Context, req *mcp.CallToolRequest, a slowArgs) (*mcp.CallToolResult, error) {
	seconds := 5.0
	if a.Seconds != nil {
		seconds = *a.Seconds
	}
	if seconds < 0 || seconds > maxSlowSeconds {
		return nil, fmt.Errorf("seconds is %g; it must be 0 to %d", seconds, maxSlowSeconds)
	}
	total := time.Duration(seconds * float64(time.Second))
	token := req.Params.GetProgressToken()
	start := time.Now()
	done := time.NewTimer(total)
	defer done.Stop()
	tick := time.NewTicker(max(total/10, 100*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-done.C:
			return text(fmt.Sprintf("waited %g seconds", seconds)), nil
		case <-tick.C:
			if token == nil {
				continue
			}
			// A client that cannot be told of progress still gets its answer.
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: token,
				Progress:      min(time.Since(start).Seconds(), seconds),
				Total:         seconds,
				Message:       "waiting",
			})
		}
	}
}

func crash(context.Context, *mcp.CallToolRequest, noArgs) (*mcp.CallToolResult, error) {
	fmt.Fprintln(os.Stderr, "demo server: crashing, as the crash tool was asked to")
	os.Exit(CrashStatus)
	panic("unreachable")
}
