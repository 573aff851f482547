package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/hermes-host/hermes-host/host/admin"
)

func callCommand() *cobra.Command {
	var at endpoint
	var output outputFormat
	var args []string
	var document string
	cmd := &cobra.Command{
		Use:   "call <tool>",
		Short: "Call a tool through a running host",
		Long: `Connects to a running host as an MCP client, calls one tool and prints its
result. Arguments are given one by one with --arg, or all at once as a JSON
object with --json. The tool's schema decides how a value of --arg is read: a
text for a string, JSON for all else.

The exit code is 0 for a result, 3 if the tool answered with an error, 4 if no
host answers, and 1 for any other failure. Progress goes to standard error.`,
		Example: `  hermes-host call demo__echo --arg text=hello
  hermes-host call demo__add --json '{"numbers": [9007199254740993, 1]}'
  hermes-host call demo__add --json @numbers.json     # @- reads standard input
  hermes-host call echo --arg text=hello --url http://127.0.0.1:7717/mcp/demo
  hermes-host call demo__add --arg 'numbers=[1,2]' -o json`,
		Args: arguments(func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name one tool; its arguments are given with --arg or --json")
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, pos []string) error {
			fixed, err := argumentDocument(document, cmd.InOrStdin())
			if err != nil {
				return usage(err)
			}
			session, err := at.connect(cmd.Context(), &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
					printProgress(cmd.ErrOrStderr(), req.Params)
				},
			})
			if err != nil {
				return err
			}
			defer session.Close()
			arguments, err := session.arguments(cmd.Context(), pos[0], fixed, args)
			if err != nil {
				return err
			}
			return session.call(cmd, pos[0], arguments, output)
		},
	}
	at.flags(cmd)
	cmd.ValidArgsFunction = at.complete
	output.flag(cmd)
	cmd.Flags().StringArrayVar(&args, "arg", nil, "an argument, as name=value; may be repeated")
	cmd.Flags().StringVar(&document, "json", "", "all arguments as a JSON object; @FILE reads a file, @- standard input")
	return cmd
}

// call calls a tool and prints the result as the host sent it.
func (s *hostSession) call(cmd *cobra.Command, tool string, arguments map[string]json.RawMessage, output outputFormat) error {
	params := &mcp.CallToolParams{Name: tool, Arguments: arguments}
	params.SetProgressToken("call")
	res, err := s.CallTool(cmd.Context(), params)
	if err != nil {
		return s.failed(cmd.Context(), tool, err)
	}
	raw := s.raw.result()
	if raw == nil {
		return fmt.Errorf("calling %s: the host's answer holds no result", tool)
	}
	if output.json() {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", raw)
	} else {
		err = printResult(cmd.OutOrStdout(), raw)
	}
	if err == nil && res.IsError {
		err = &exit{code: exitToolError}
	}
	return err
}

// failed says why a call got no result. A tool that the host does not know is
// told by that it refuses the parameters and does not list the tool.
func (s *hostSession) failed(ctx context.Context, tool string, err error) error {
	answer, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		return fmt.Errorf("calling %s: %w", tool, err)
	}
	if answer.Code == jsonrpc.CodeInvalidParams {
		if list, err := s.tools(ctx); err == nil {
			if names := toolNames(list); !slices.Contains(names, tool) {
				return noTool(tool, names)
			}
		}
	}
	return fmt.Errorf("calling %s: %s", tool, plain(answer.Message))
}

// noTool is the error for a tool that is none of those listed. A plain name
// stands for those of all servers, such as echo for demo__echo.
func noTool(tool string, names []string) error {
	near := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasSuffix(name, "__"+tool) })
	if len(near) == 0 {
		near = admin.Near(tool, names)
	}
	msg := fmt.Sprintf("there is no tool %q", tool)
	if len(near) > 0 {
		msg += "; did you mean " + strings.Join(near[:min(len(near), 3)], " or ") + "?"
	}
	return errors.New(msg + " (\"hermes-host tools\" lists them)")
}

func toolNames(list []json.RawMessage) []string {
	var names []string
	for _, raw := range list {
		var e toolEntry
		if json.Unmarshal(raw, &e) == nil {
			names = append(names, e.Name)
		}
	}
	return names
}

// complete completes the name of a tool.
func (e *endpoint) complete(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	session, err := e.connect(ctx, nil)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer session.Close()
	list, err := session.tools(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return toolNames(list), cobra.ShellCompDirectiveNoFileComp
}

// argumentDocument returns the JSON object that --json stands for.
func argumentDocument(s string, stdin io.Reader) (map[string]json.RawMessage, error) {
	object := map[string]json.RawMessage{}
	if s == "" {
		return object, nil
	}
	text := []byte(s)
	if name, ok := strings.CutPrefix(s, "@"); ok {
		var err error
		if name == "-" {
			text, err = io.ReadAll(stdin)
		} else {
			text, err = os.ReadFile(name)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the arguments of --json: %w", err)
		}
	}
	if err := json.Unmarshal(text, &object); err != nil || object == nil {
		return nil, errors.Join(errors.New("--json must be a JSON object"), err)
	}
	return object, nil
}

// arguments adds the name=value pairs to object. Values become strings or JSON
// as the tool's schema says; a tool that is not listed may still be known to
// the host, so its values become JSON where they are JSON.
func (s *hostSession) arguments(ctx context.Context, tool string, object map[string]json.RawMessage, pairs []string) (map[string]json.RawMessage, error) {
	if len(pairs) == 0 {
		return object, nil
	}
	list, err := s.tools(ctx)
	if err != nil {
		return nil, err
	}
	var entry toolEntry
	for _, raw := range list {
		var e toolEntry
		if json.Unmarshal(raw, &e) == nil && e.Name == tool {
			entry = e
			break
		}
	}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usage(fmt.Errorf("--arg %q is not name=value", pair))
		}
		property, known := entry.InputSchema.Properties[name]
		text := known && string(property.Type) == `"string"`
		switch {
		case !text && json.Valid([]byte(value)):
			object[name] = json.RawMessage(value)
		case known && !text && len(property.Type) > 0 && !strings.Contains(string(property.Type), `"string"`):
			return nil, usage(fmt.Errorf("--arg %s: the tool takes %s here, which %q is not", name, property.Type, value))
		default:
			quoted, err := json.Marshal(value)
			if err != nil {
				return nil, usage(fmt.Errorf("--arg %s: %w", name, err))
			}
			object[name] = quoted
		}
	}
	return object, nil
}

// printResult prints a tool's result for people: text as it is, and a line for
// each thing that is no text.
func printResult(w io.Writer, raw json.RawMessage) error {
	var result struct {
		Content []struct {
			Type, Text, Data, URI, MIMEType string
			Resource                        struct{ URI, Text, MIMEType string }
		}
		StructuredContent json.RawMessage
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return fmt.Errorf("reading the result: %w", err)
	}
	var err error
	line := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format+"\n", args...)
		}
	}
	for _, c := range result.Content {
		switch {
		case c.Type == "text":
			line("%s", c.Text)
		case c.Type == "resource" && c.Resource.Text != "":
			line("%s", c.Resource.Text)
		case c.Type == "resource":
			line("[resource %s, %s]", c.Resource.URI, c.Resource.MIMEType)
		case c.Type == "resource_link":
			line("[link %s]", c.URI)
		default:
			line("[%s, %s, %d bytes of base64; use -o json to see them]", c.Type, c.MIMEType, len(c.Data))
		}
	}
	if len(result.Content) == 0 && len(result.StructuredContent) > 0 {
		line("%s", result.StructuredContent)
	}
	return err
}

func printProgress(w io.Writer, p *mcp.ProgressNotificationParams) {
	switch {
	case p.Total > 0 && p.Message != "":
		fmt.Fprintf(w, "%.0f %% %s\n", 100*p.Progress/p.Total, p.Message)
	case p.Total > 0:
		fmt.Fprintf(w, "%.0f %%\n", 100*p.Progress/p.Total)
	default:
		fmt.Fprintf(w, "%g %s\n", p.Progress, p.Message)
	}
}
