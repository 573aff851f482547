package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

// With this variable set, the test program is a server over stdio whose lists
// change in bursts. The MCP SDK's server would join the notices of a burst
// itself.
const burstEnv = "HERMES_TEST_BURST"

// noticesInBurst is how many notices the tool "burst" sends for one change.
const noticesInBurst = 200

// serveBurst is that server. Its tool "burst" adds a tool and says so
// noticesInBurst times before it answers; the answer is how often the server has been
// asked for its tools until then. It reports false if this is not to be one.
func serveBurst() bool {
	if os.Getenv(burstEnv) == "" {
		return false
	}
	out := bufio.NewWriter(os.Stdout)
	tools, lists := []string{`{"name":"burst","inputSchema":{"type":"object"}}`}, 0
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		m, err := jsonrpc.Parse(in.Bytes())
		if err != nil {
			panic(err)
		}
		result := "{}"
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"burst","version":"1"}}`
		case "tools/list":
			lists++
			result = `{"tools":[` + strings.Join(tools, ",") + `]}`
		case "tools/call":
			tools = append(tools, fmt.Sprintf(`{"name":"tool%d","inputSchema":{"type":"object"}}`, len(tools)))
			for range noticesInBurst {
				fmt.Fprintln(out, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			}
			result = fmt.Sprintf(`{"content":[{"type":"text","text":"%d"}]}`, lists)
		}
		if m.IsRequest() {
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
		}
		out.Flush()
	}
	return true
}

// TestBurstOfListChanges: 200 notices of one change cost at most two lists of
// the server and one notice to a client.
func TestBurstOfListChanges(t *testing.T) {
	t.Parallel()
	host := run(t, fmt.Sprintf("server \"target\" {\n  transport \"stdio\" {\n    command = %q\n    env     = { %s = \"1\" }\n  }\n}\n", self(t), burstEnv), "target")
	changed := make(chan struct{}, 10*noticesInBurst)
	client := host.connect("", &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
	})
	const bursts = 3
	lists, notices := 0, 0
	for burst := range bursts {
		res, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: "target__burst"})
		if err != nil {
			t.Fatal(err)
		}
		now, err := strconv.Atoi(res.Content[0].(*mcp.TextContent).Text)
		if err != nil {
			t.Fatal(err)
		}
		if burst > 0 && (now-lists < 1 || now-lists > 2) {
			t.Errorf("a burst of %d notices cost %d lists", noticesInBurst, now-lists)
		}
		lists = now
		for late := time.After(patience); ; {
			list, err := client.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(list.Tools) == burst+2 {
				break
			}
			select {
			case <-changed:
				notices++
			case <-late:
				t.Fatalf("the client sees %d tools after burst %d", len(list.Tools), burst+1)
			}
		}
	}
	client.Close() // no notice comes after this
	if notices += len(changed); notices > bursts {
		t.Errorf("%d bursts of %d notices reached the client as %d", bursts, noticesInBurst, notices)
	}
}
