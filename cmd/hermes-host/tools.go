package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// toolEntry is what the commands read of a tool.
type toolEntry struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Annotations struct {
		Title string `json:"title"`
	} `json:"annotations"`
	InputSchema struct {
		Properties map[string]struct {
			Type json.RawMessage `json:"type"`
		} `json:"properties"`
		Required []string `json:"required"`
	} `json:"inputSchema"`
}

func toolsCommand() *cobra.Command {
	var at endpoint
	var output outputFormat
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "List the tools that a running host offers",
		Long: `Connects to a running host as an MCP client and lists the tools of all its
servers, or of one where --url names that server's endpoint. With -o json it
prints the tools as the host sent them, schemas included.`,
		Example: `  hermes-host tools
  hermes-host tools -o json
  hermes-host tools --url http://127.0.0.1:7717/mcp/demo`,
		Args: arguments(none),
		RunE: func(cmd *cobra.Command, _ []string) error {
			session, err := at.connect(cmd.Context(), nil)
			if err != nil {
				return err
			}
			defer session.Close()
			tools, err := session.tools(cmd.Context())
			if err != nil {
				return err
			}
			if output.json() {
				return printJSON(cmd, tools)
			}
			return printTools(cmd.OutOrStdout(), tools)
		},
	}
	at.flags(cmd)
	output.flag(cmd)
	return cmd
}

func printTools(w io.Writer, tools []json.RawMessage) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, raw := range tools {
		var t toolEntry
		if err := json.Unmarshal(raw, &t); err != nil {
			return fmt.Errorf("reading a tool: %w", err)
		}
		fmt.Fprintf(table, "%s\t%s\n", t.Name, firstLine(cmp.Or(t.Description, t.Title, t.Annotations.Title)))
	}
	return table.Flush()
}

// firstLine returns the beginning of a description, fit for a table.
func firstLine(s string) string {
	line, _, more := strings.Cut(strings.TrimSpace(s), "\n")
	const most = 100
	if runes := []rune(line); len(runes) > most {
		line, more = string(runes[:most-1]), true
	}
	if more {
		line += "…"
	}
	return line
}
