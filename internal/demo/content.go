package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hermes-host/hermes-host/internal/version"
)

const (
	infoURI      = "demo://info"
	greetingURI  = "demo://greeting/"
	greetingTmpl = greetingURI + "{name}"
)

// addContent registers what the server offers besides tools: a resource, a
// resource template and a prompt.
func addContent(s *mcp.Server, started time.Time) {
	s.AddResource(&mcp.Resource{
		URI:         infoURI,
		Name:        "info",
		Title:       "About this server",
		Description: "The server's process id, version and uptime. The process id changes when the server was brought back.",
		MIMEType:    "application/json",
	}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		body, err := json.Marshal(map[string]any{
			"pid":            os.Getpid(),
			"version":        version.String(),
			"started":        started.UTC().Format(time.RFC3339),
			"uptime_seconds": int(time.Since(started).Seconds()),
		})
		if err != nil {
			return nil, fmt.Errorf("describing the server: %w", err)
		}
		return contents(infoURI, "application/json", string(body)), nil
	})

	s.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: greetingTmpl,
		Name:        "greeting",
		Title:       "A greeting",
		Description: "A greeting for a name.",
		MIMEType:    "text/plain",
	}, func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		uri := req.Params.URI
		name, err := url.PathUnescape(strings.TrimPrefix(uri, greetingURI))
		if err != nil || name == "" {
			return nil, mcp.ResourceNotFoundError(uri)
		}
		return contents(uri, "text/plain", "Hello, "+name+"!"), nil
	})

	s.AddPrompt(&mcp.Prompt{
		Name:        "try_recovery",
		Title:       "Try the recovery",
		Description: "Asks a model to crash the demo server and to watch it come back.",
		Arguments: []*mcp.PromptArgument{
			{Name: "tool", Title: "Tool", Description: "The tool to call after the crash; echo if left out."},
		},
	}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		tool := req.Params.Arguments["tool"]
		if tool == "" {
			tool = "echo"
		}
		return &mcp.GetPromptResult{
			Description: "Crash the demo server and watch it come back",
			Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "Read the resource " + infoURI +
				" and note the process id. Call the crash tool once; it ends without an answer. Then call the " + tool +
				" tool, read " + infoURI + " again, and tell me whether the process id changed and how long the call took."}}},
		}, nil
	})
}

func contents(uri, mimeType, body string) *mcp.ReadResourceResult {
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: mimeType, Text: body}}}
}

// complete suggests tools for the prompt and a few names for the template.
func complete(_ context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	var all []string
	switch ref := req.Params.Ref; {
	case ref == nil:
	case ref.Name == "try_recovery" && req.Params.Argument.Name == "tool":
		all = []string{"add", "echo", "random_text", "slow", "time", "uuid"}
	case ref.URI == greetingTmpl && req.Params.Argument.Name == "name":
		all = []string{"Ada", "Grace", "Hermes", "Linus"}
	}
	res := &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{}}}
	for _, v := range all {
		if strings.HasPrefix(v, req.Params.Argument.Value) {
			res.Completion.Values = append(res.Completion.Values, v)
		}
	}
	res.Completion.Total = len(res.Completion.Values)
	return res, nil
}
