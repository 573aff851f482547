package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-host/hermes-host/host/admin"
)

func reloadCommand() *cobra.Command {
	var to operator
	var dry bool
	var file string
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

It returns when the new sessions of changed servers are up or given up for now,
and says which were not, also where a newer change of the file came before. That
change does not wait.

The host does the same on SIGHUP, and when the file changes (unless it was
started with --watch=false).

With -o json a failure is an object, too: its "error" has a code, a message, and
the diagnostics.`,
		Example: `  hermes-host reload --dry-run
  hermes-host reload --dry-run --file new.hcl
  hermes-host reload`,
		Args: arguments(func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return fmt.Errorf("unexpected argument %q; another file is named with --dry-run --file", args[0])
			case file != "" && !dry:
				return errors.New("--file goes with --dry-run: a host reloads its own file")
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file != "" {
				if _, err := os.Stat(file); err != nil {
					return unreadable(file, err)
				}
				var err error
				if file, err = filepath.Abs(file); err != nil {
					return err
				}
			}
			err := to.ask(cmd, func(ctx context.Context, c *admin.Client) error {
				before, err := c.Status(ctx)
				if err != nil {
					return err
				}
				var changes admin.Changes
				if file == "" {
					changes, err = c.Reload(ctx, dry)
				} else {
					changes, err = c.Preview(ctx, file)
				}
				if err != nil {
					return err
				}
				if output.json() {
					return printJSON(cmd, changes)
				}
				return printChanges(cmd.OutOrStdout(), changes, before.Reload)
			})
			if refused, ok := errors.AsType[configRefused](err); ok && dry {
				refused.dry = true
				err = refused
			}
			if err != nil && output.json() {
				return errors.Join(err, printJSON(cmd, map[string]*admin.Error{"error": refusalOf(err)}))
			}
			return err
		},
	}
	to.flags(cmd)
	output.flag(cmd)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would change")
	cmd.Flags().StringVar(&file, "file", "", "with --dry-run: what would change if this were the configuration")
	_ = cmd.MarkFlagFilename("file", "hcl", "json")
	return cmd
}

// refusalOf returns a failure as the host would report it.
func refusalOf(err error) *admin.Error {
	if e, ok := errors.AsType[*admin.Error](err); ok {
		return e
	}
	return &admin.Error{Code: admin.Failed, Message: err.Error()}
}

// recent is how long ago a reload may be to explain that another finds nothing
// to do: the host was faster than whoever saved the file and then asks.
const recent = 10 * time.Second

// printChanges says what a reload does or would do. Before is the outcome of
// the one before, nil if there was none.
func printChanges(w io.Writer, c admin.Changes, before *admin.Reloaded) error {
	var b strings.Builder
	for _, warning := range c.Warnings {
		fmt.Fprintf(&b, "%s\n", warning)
	}
	lines := c.Lines()
	switch {
	case len(lines) > 0:
	case before != nil && before.Error == "" && time.Since(before.At) < recent:
		fmt.Fprintf(&b, "nothing has changed since the configuration was read %s ago (%s)\n", span(time.Since(before.At)), plain(before.By))
	default:
		b.WriteString("nothing has changed\n")
	}
	for _, line := range lines {
		fmt.Fprintf(&b, "%s\n", plain(line))
	}
	for _, change := range slices.Concat(c.Replaced, c.Waiting) {
		if change.Trouble != "" {
			fmt.Fprintf(&b, "%s: %s\n", change.Server, plain(change.Trouble))
		}
	}
	if c.DryRun {
		b.WriteString("nothing was applied: this was a dry run\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
