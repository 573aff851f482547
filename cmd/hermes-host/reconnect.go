package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hermes-host/hermes-host/host/admin"
)

func reconnectCommand() *cobra.Command {
	var to operator
	var all bool
	cmd := &cobra.Command{
		Use:   "reconnect <server>... | --all",
		Short: "Give servers of a running host a new session",
		Long: `Ends the sessions of the named servers and makes new ones at once. A parked
server wakes with its full number of attempts, one that waits for its next
attempt stops waiting, and the circuit breaker closes with the new session.
Calls in flight at the old session end.

It does not wait for the new session: see "hermes-host status -w".`,
		Example: `  hermes-host reconnect demo
  hermes-host reconnect --all`,
		Args: arguments(func(_ *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0:
				return errors.New("name servers or use --all, not both")
			case !all && len(args) == 0:
				return errors.New("name the servers, or use --all")
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			return to.ask(cmd, func(ctx context.Context, c *admin.Client) error {
				names, err := c.Reconnect(ctx, args...)
				if err != nil {
					return err
				}
				for _, name := range names {
					if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: reconnect requested\n", name); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	to.flags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "all servers that are enabled")
	cmd.ValidArgsFunction = to.servers
	return cmd
}
