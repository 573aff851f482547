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
	var watch bool
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

An interrupt or SIGTERM ends it in order: calls in flight get 2 s to finish, then
servers and plugins end within a few seconds, and the exit code is 0. A second
signal ends everything at once. The log goes to standard error.

A change of the configuration file is applied at once if it is right, and
refused whole if it is not; so it is on SIGHUP and "hermes-host reload", which
--watch=false leaves as the only ways. "hermes-host status" and its like ask
the host over a socket that only its user can open.`,
		Example: `  hermes-host run
  hermes-host run -c ./servers.hcl --var token=secret
  hermes-host run --listen 127.0.0.1:8080 --log-level debug
  hermes-host run --log-format json 2>>hermes.log`,
		Args: arguments(none),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return from.serve(cmd, logs, true, watch, listen, func(ctx context.Context, h *host.Host) error {
				ctx, stop := reloadOnHangup(ctx, h)
				defer stop()
				return h.Run(ctx)
			})
		},
	}
	from.flags(cmd)
	logs.flags(cmd)
	cmd.Flags().BoolVar(&watch, "watch", true, "apply changes of the configuration file")
	cmd.Flags().StringVar(&listen, "listen", "", "address to serve at instead of the configuration's; port 0 takes a free one")
	return cmd
}

func stdioCommand() *cobra.Command {
	var from source
	var logs logFlags
	var alone bool
	cmd := &cobra.Command{
		Use:   "stdio",
		Short: "Serve one MCP client on standard input and output",
		Long: `Serves the MCP client that started it, and ends with that client. For clients
that start their servers as commands.

Where a host runs with the same configuration ("hermes-host run"), the client
joins it, so that any number of clients share one set of servers; this process
then only carries bytes, and ends with exit code 1 if the host does. Otherwise,
or with --standalone or --var, it runs a host of its own. No port is opened, and
the log goes to standard error.

Without --config it looks where "run" does, except in the working directory:
that is of the client's choosing, and what a stranger's directory says must not
be run.`,
		Example: `  hermes-host stdio -c ~/servers.hcl
  hermes-host stdio --standalone

  {"mcpServers": {"hermes": {"command": "hermes-host", "args": ["stdio"]}}}`,
		Args: arguments(none),
		RunE: func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(syscall.SIGPIPE) // a client that stops reading ends the host in order
			if !alone && len(from.vars) == 0 {
				joined, err := from.join(cmd, logs)
				if joined || err != nil {
					return err
				}
			}
			return from.serve(cmd, logs, false, true, "", func(ctx context.Context, h *host.Host) error {
				return h.RunStdio(ctx, cmd.InOrStdin(), cmd.OutOrStdout())
			})
		},
	}
	from.flags(cmd)
	logs.flags(cmd)
	cmd.Flags().BoolVar(&alone, "standalone", false, "run a host of its own even if one runs with the same configuration")
	return cmd
}
