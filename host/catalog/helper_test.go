package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/host/supervisor"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a session whose lists are scripted: pages by method, the cursor of a
// page being its number.
type fake struct {
	info  session.Info
	pages map[string][]string
	fail  map[string]error
	odd   func(req session.Request) (session.Reply, error)

	mu    sync.Mutex
	asked []string
}

func (f *fake) Info() session.Info {
	if f.info.Capabilities == nil {
		f.info.Capabilities = json.RawMessage(`{"tools":{},"resources":{},"prompts":{}}`)
	}
	return f.info
}

func (f *fake) Call(ctx context.Context, req session.Request) (session.Reply, error) {
	f.mu.Lock()
	f.asked = append(f.asked, req.Method)
	f.mu.Unlock()
	if err := f.fail[req.Method]; err != nil {
		return session.Reply{}, err
	}
	if f.odd != nil {
		return f.odd(req)
	}
	pages := f.pages[req.Method]
	if pages == nil {
		return session.Reply{Error: jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "Method not found")}, nil
	}
	n := 0
	if req.Params != nil {
		fmt.Sscanf(string(req.Params), `{"cursor":"%d"}`, &n)
	}
	res := strings.TrimSuffix(pages[n], "}")
	if n+1 < len(pages) {
		res += fmt.Sprintf(`,"nextCursor":"%d"`, n+1)
	}
	return session.Reply{Result: json.RawMessage(res + "}")}, nil
}

func (f *fake) Notify(string, json.RawMessage) error        { return nil }
func (f *fake) Answer(json.RawMessage, session.Reply) error { return nil }
func (f *fake) Healthy(context.Context) error               { return nil }
func (f *fake) Done() <-chan struct{}                       { return nil }
func (f *fake) End() *session.End                           { return nil }
func (f *fake) Close(context.Context)                       {}

func tool(name string) string {
	return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name)
}

func tools(names ...string) *fake {
	var all []string
	for _, n := range names {
		all = append(all, tool(n))
	}
	return &fake{pages: map[string][]string{"tools/list": {`{"tools":[` + strings.Join(all, ",") + `]}`}}}
}

func resources(uris ...string) *fake {
	var all []string
	for _, u := range uris {
		all = append(all, fmt.Sprintf(`{"uri":%q,"name":"n"}`, u))
	}
	return &fake{pages: map[string][]string{"resources/list": {`{"resources":[` + strings.Join(all, ",") + `]}`}}}
}

func with(t *testing.T, servers ...Server) *Catalog {
	t.Helper()
	c := New()
	if err := c.SetServers(servers); err != nil {
		t.Fatal(err)
	}
	return c
}

func feed(t *testing.T, c *Catalog, server string, f session.Session) {
	t.Helper()
	h, ok := c.Handle(server)
	if !ok {
		t.Fatalf("no handle for %q", server)
	}
	if err := h.List(t.Context(), f, supervisor.AllLists); err != nil {
		t.Fatal(err)
	}
}

func view(t *testing.T, c *Catalog, endpoint string) *View {
	t.Helper()
	e, ok := c.Endpoint(endpoint)
	if !ok {
		t.Fatalf("no endpoint %q", endpoint)
	}
	return e.View()
}

// page decodes one page of a list.
func page(t *testing.T, v *View, kind Kind, cursor json.RawMessage, version string) (names []string, next string, raw string) {
	t.Helper()
	res, err := v.List(kind, cursor, version)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(res, &all); err != nil {
		t.Fatalf("%s is not JSON: %v", res, err)
	}
	var entries []map[string]any
	if err := json.Unmarshal(all[kind.member()], &entries); err != nil {
		t.Fatalf("%s: %v", res, err)
	}
	for _, e := range entries {
		names = append(names, e[kindFacts[kind].key].(string))
	}
	if all["nextCursor"] != nil {
		next = string(all["nextCursor"])
	}
	return names, next, string(res)
}

func names(t *testing.T, v *View, kind Kind) []string {
	t.Helper()
	all, _, _ := page(t, v, kind, nil, "2025-11-25")
	return all
}

func ptr(s string) *string { return &s }
