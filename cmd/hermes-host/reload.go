package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-host/hermes-host/host/admin"
)

func reloadCommand() *cobra.Command {
	var to operator
	var dry bool
	var output outputFormat
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make a running host read its configuration again",
		Long: `Makes a running host read its configuration again and apply what has changed.
The configuration is checked whole, and refused whole if anything is wrong with
it: the host then goes on with what it has, and the exit code is 1.

Servers that are the same are not touched. A changed server serves with its old
session until the new one is up, and calls in flight are finished. Changes of
filters, prefixes and order leave all sessions as they are. What cannot change
in a running host, such as the address that it listens on, is named.

The host does the same on SIGHUP, and when the file changes (unless it was
started with --watch=false).`,
		Example: `  hermes-host reload --dry-run
  hermes-host reload`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return to.ask(cmd, func(ctx context.Context, c *admin.Client) error {
				changes, err := c.Reload(ctx, dry)
				if err != nil {
					return err
				}
				if output.json() {
					return printJSON(cmd, changes)
				}
				return printChanges(cmd.OutOrStdout(), changes)
			})
		},
	}
	to.flags(cmd)
	output.flag(cmd)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would change")
	return cmd
}

func printChanges(w io.Writer, c admin.Changes) error {
	var b strings.Builder
	for _, warning := range c.Warnings {
		fmt.Fprintf(&b, "%s\n", warning)
	}
	if c.None() {
		b.WriteString("nothing has changed\n")
	}
	for _, name := range c.Removed {
		fmt.Fprintf(&b, "- %s: removed\n", name)
	}
	for _, name := range c.Added {
		fmt.Fprintf(&b, "+ %s: added\n", name)
	}
	for _, change := range c.Replaced {
		fmt.Fprintf(&b, "~ %s: new session (%s)\n", change.Server, strings.Join(change.Settings, ", "))
		if change.Trouble != "" {
			fmt.Fprintf(&b, "    %s\n", plain(change.Trouble))
		}
	}
	for _, change := range c.Updated {
		fmt.Fprintf(&b, "~ %s: lists only (%s)\n", change.Server, strings.Join(change.Settings, ", "))
	}
	if c.Order {
		b.WriteString("~ the order of the servers\n")
	}
	for _, name := range c.Live {
		fmt.Fprintf(&b, "~ %s\n", name)
	}
	for _, name := range c.Restart {
		fmt.Fprintf(&b, "! %s: needs a restart of the host\n", name)
	}
	if c.DryRun {
		b.WriteString("nothing was applied: this was a dry run\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
