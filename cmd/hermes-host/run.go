package main

import (
	"context"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hermes-host/hermes-host/host"
)

func runCommand() *cobra.Command {
	var from source
	var logs logFlags
	var listen string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the host and serve MCP clients over HTTP",
		Long: `Runs the host until it is told to stop: starts all servers of the configuration,
keeps them alive, and serves them at /mcp (all of them) and /mcp/<server> (one,
under its own names).

Without --config it uses the first of these files that exists, and says in its
log which one:
  ./config.hcl
  $XDG_CONFIG_HOME/hermes-host/config.hcl (~/.config; %AppData% on Windows)
  /etc/hermes-host/config.hcl
  config.hcl beside the program
  ../share/hermes-host/config.hcl, seen from the program's directory

An interrupt or SIGTERM ends it in order: clients are told, calls in flight are
cancelled, servers and plugins end within a few seconds, and the exit code is
0. A second signal ends everything at once. The log goes to standard error.`,
		Example: `  hermes-host run
  hermes-host run -c ./servers.hcl --var token=secret
  hermes-host run --listen 127.0.0.1:8080 --log-level debug
  hermes-host run --log-format json 2>>hermes.log`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return from.serve(cmd, logs, true, listen, func(ctx context.Context, h *host.Host) error { return h.Run(ctx) })
		},
	}
	from.flags(cmd)
	logs.flags(cmd)
	cmd.Flags().StringVar(&listen, "listen", "", "address to serve at instead of the configuration's; port 0 takes a free one")
	return cmd
}

func stdioCommand() *cobra.Command {
	var from source
	var logs logFlags
	cmd := &cobra.Command{
		Use:   "stdio",
		Short: "Run the host for one MCP client on standard input and output",
		Long: `Runs a host of its own for the MCP client that started it, and ends with that
client. For clients that start their servers as commands; where several clients
should share the same servers, let them use a running host's URL instead. No
port is opened, and the log goes to standard error.

Without --config it looks where "run" does, except in the working directory:
that is of the client's choosing, and what a stranger's directory says must not
be run.`,
		Example: `  hermes-host stdio -c ~/servers.hcl

  {"mcpServers": {"hermes": {"command": "hermes-host", "args": ["stdio"]}}}`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(syscall.SIGPIPE) // a client that stops reading ends the host in order
			return from.serve(cmd, logs, false, "", func(ctx context.Context, h *host.Host) error {
				return h.RunStdio(ctx, cmd.InOrStdin(), cmd.OutOrStdout())
			})
		},
	}
	from.flags(cmd)
	logs.flags(cmd)
	return cmd
}
