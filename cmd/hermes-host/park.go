package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hermes-host/hermes-host/host/admin"
)

func parkCommand() *cobra.Command {
	var to operator
	cmd := &cobra.Command{
		Use:   "park <server>",
		Short: "Take a server of a running host out of service",
		Long: `Ends the session of a server, and its process, and takes its tools out of the
lists. It stays so until "hermes-host reconnect", or until its configuration
changes or the host is restarted; calls and timers do not wake it.`,
		Example: `  hermes-host park demo
  hermes-host reconnect demo`,
		Args: arguments(func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return errors.New("name the server")
			case 1:
				return nil
			}
			return errors.New("name one server at a time")
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			return to.ask(cmd, func(ctx context.Context, c *admin.Client) error {
				if err := c.Park(ctx, args[0]); err != nil {
					return err
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: parked until \"hermes-host reconnect %[1]s\"\n", args[0])
				return err
			})
		},
	}
	to.flags(cmd)
	cmd.ValidArgsFunction = to.servers
	return cmd
}
