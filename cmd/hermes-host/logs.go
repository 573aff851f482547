package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-host/hermes-host/host/admin"
)

// feedFlags say which part of a running host's feed a command shows.
type feedFlags struct {
	last   int
	follow bool
	output outputFormat
}

func (f *feedFlags) flags(cmd *cobra.Command, last int) {
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "go on with what is to come, until interrupted")
	cmd.Flags().IntVarP(&f.last, "last", "n", last, "show at most so many of those that the host has kept; 0: all")
	f.output.flag(cmd)
}

// check refuses values that make no sense.
func (f *feedFlags) check() error {
	if f.last < 0 {
		return usage(fmt.Errorf("--last is %d; it can't be less than 0", f.last))
	}
	return nil
}

func (f *feedFlags) query(args []string) admin.Query {
	q := admin.Query{Last: f.last, Follow: f.follow}
	if len(args) > 0 {
		q.Server = args[0]
	}
	return q
}

func logsCommand() *cobra.Command {
	var to operator
	var feed feedFlags
	cmd := &cobra.Command{
		Use:   "logs [server]",
		Short: "Show the latest log lines of a running host",
		Long: `Shows the log lines that a running host keeps in memory, of one server or of
all: down to level debug, whatever level its log is at, and with what servers
print on standard error. With -o json each line is an object.`,
		Example: `  hermes-host logs
  hermes-host logs -f demo
  hermes-host logs -n 0 -o json`,
		Args: arguments(oneServer),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := feed.check(); err != nil {
				return err
			}
			return to.ask(cmd, func(ctx context.Context, c *admin.Client) error {
				return c.Logs(ctx, feed.query(args), func(l admin.Line) error {
					return feed.print(cmd.OutOrStdout(), l, func() string { return textOfLine(l) })
				})
			})
		},
	}
	to.flags(cmd)
	feed.flags(cmd, 200)
	cmd.ValidArgsFunction = to.servers
	return cmd
}

// print writes an item as one line.
func (f *feedFlags) print(w io.Writer, item any, text func() string) error {
	if !f.output.json() {
		_, err := fmt.Fprintln(w, text())
		return err
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(item)
}

// timeFormat is that of the log, in local time.
const timeFormat = "2006-01-02T15:04:05.000Z0700"

func textOfLine(l admin.Line) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %-7s ", l.At.Local().Format(timeFormat), "["+strings.ToUpper(l.Level)+"]")
	if l.Server != "" {
		fmt.Fprintf(&b, "%s: ", l.Server)
	}
	b.WriteString(plain(l.Message))
	for _, f := range l.Fields {
		fmt.Fprintf(&b, " %s=%s", f.Key, quoted(f.Value))
	}
	return b.String()
}
