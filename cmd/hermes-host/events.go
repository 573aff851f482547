package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-host/hermes-host/host/admin"
)

func eventsCommand() *cobra.Command {
	var to operator
	var feed feedFlags
	cmd := &cobra.Command{
		Use:   "events [server]",
		Short: "Show how the servers of a running host have changed state",
		Long: `Shows the latest changes of state that a running host keeps in memory, of one
server or of all and the host itself: when, from what to what, why, and when the
next attempt is planned; and attempts to reach a server that failed for a new
reason. Those that fail as earlier ones did are counted. With -o json each event
is an object on a line.`,
		Example: `  hermes-host events
  hermes-host events -f demo
  hermes-host events -f -o json`,
		Args: arguments(oneServer),
		RunE: func(cmd *cobra.Command, args []string) error {
			return to.ask(cmd, func(ctx context.Context, c *admin.Client) error {
				return c.Events(ctx, feed.query(args), func(e admin.Event) error {
					return feed.print(cmd.OutOrStdout(), e, func() string { return textOfEvent(e) })
				})
			})
		},
	}
	to.flags(cmd)
	feed.flags(cmd, 100)
	cmd.ValidArgsFunction = to.servers
	return cmd
}

func textOfEvent(e admin.Event) string {
	var b strings.Builder
	b.WriteString(e.At.Local().Format(timeFormat))
	about, from, to := e.Server, e.From, e.To
	if e.Session != nil {
		about, from, to = e.Server+", "+plain(e.Session.Kind), e.Session.From, e.Session.To
		if e.Session.ID != "" {
			about += fmt.Sprintf(" %s (%s)", e.Session.ID, plain(e.Session.Client))
		}
	}
	switch {
	case e.Server == "":
		fmt.Fprintf(&b, " host: %s", plain(e.Reason))
	case from == to && to == "ready": // a trouble, or its end
		fmt.Fprintf(&b, " %s: %s: %s", about, to, plain(e.Reason))
	case from == to:
		fmt.Fprintf(&b, " %s: %s: attempt %d failed: %s", about, to, e.Attempt, plain(e.Reason))
	case e.Session != nil && to == "stopped":
		fmt.Fprintf(&b, " %s: ended: %s", about, plain(e.Reason))
	default:
		fmt.Fprintf(&b, " %s: %s -> %s: %s", about, from, to, plain(e.Reason))
	}
	if e.Error != "" && e.Error != e.Reason {
		fmt.Fprintf(&b, " (%s)", plain(e.Error))
	}
	if e.Next != nil {
		fmt.Fprintf(&b, "; next attempt %s", ahead("in ", e.Next.Sub(e.At)))
	}
	if e.Repeated > 0 {
		fmt.Fprintf(&b, "; before that, failures as earlier ones: %d", e.Repeated)
	}
	return b.String()
}
