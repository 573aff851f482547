package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-host/hermes-host/host/admin"
)

// feedFlags say which part of a running host's feed a command shows.
type feedFlags struct {
	last   latest
	follow bool
	output outputFormat
}

func (f *feedFlags) flags(cmd *cobra.Command, last int) {
	f.last = latest{&last}
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "go on with what is to come, until interrupted")
	cmd.Flags().VarP(&f.last, "last", "n", "show at most so many of those that the host has kept, or \"all\"; with -f, 0 shows only what is to come")
	f.output.flag(cmd)
}

// latest is a number of items, nil for all that there are. It implements
// [pflag.Value].
type latest struct{ n *int }

const allItems = "all"

func (l *latest) String() string {
	if l.n == nil {
		return allItems
	}
	return strconv.Itoa(*l.n)
}

func (l *latest) Set(text string) error {
	if text == allItems {
		l.n = nil
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return errors.New("it is a number from 0 up, or \"all\"")
	}
	l.n = &n
	return nil
}

func (l *latest) Type() string { return "number" }

func (f *feedFlags) query(args []string) admin.Query {
	q := admin.Query{Last: f.last.n, Follow: f.follow}
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
  hermes-host logs -f -n 0 demo
  hermes-host logs -n all -o json`,
		Args: arguments(oneServer),
		RunE: func(cmd *cobra.Command, args []string) error {
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
