package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hermes-host/hermes-host/internal/demo"
	"github.com/hermes-host/hermes-host/internal/version"
)

func versionCommand() *cobra.Command {
	var output outputFormat
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Tell which build this is",
		Long:  `Prints the version, the commit it was built from, and the Go release and platform it was built for.`,
		Example: `  hermes-host version
  hermes-host version -o json`,
		Args: arguments(none),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output.json() {
				return printJSON(cmd, version.Get())
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "hermes-host %s\n", version.Get())
			return err
		},
	}
	output.flag(cmd)
	return cmd
}

func demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo-server",
		Short: "Run a small MCP server on standard input and output",
		Long: `Runs an MCP server that needs no network and no files, for trying the host and
for tests. It is not the host: name it in a configuration, as config.hcl does.

Tools: echo, time, add, uuid, random_text, slow (waits and reports progress),
and crash, which ends the server's process at once, so that you can watch the
host bring it back. It also has a resource (demo://info), a resource template
(demo://greeting/{name}) and a prompt (try_recovery).`,
		Example: `  server "demo" {
    transport "stdio" {
      command = hermes.executable
      args    = ["demo-server"]
    }
  }`,
		Args: arguments(none),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := demo.Run(cmd.Context())
			if cmd.Context().Err() != nil {
				return nil // asked to stop
			}
			return err
		},
	}
}

// outputFormat is the value of a flag -o, "text" or "json".
type outputFormat string

func (o *outputFormat) flag(cmd *cobra.Command) {
	*o = "text"
	cmd.Flags().VarP(o, "output", "o", "how to print: text or json")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

func (o *outputFormat) json() bool     { return *o == "json" }
func (o *outputFormat) String() string { return string(*o) }
func (o *outputFormat) Type() string   { return "format" }

// Set takes the flag's value.
func (o *outputFormat) Set(s string) error {
	if s != "text" && s != "json" {
		return fmt.Errorf(`must be "text" or "json"`)
	}
	*o = outputFormat(s)
	return nil
}

func printJSON(cmd *cobra.Command, v any) error {
	e := json.NewEncoder(cmd.OutOrStdout())
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
