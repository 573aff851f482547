package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-host/hermes-host/host/admin"
)

func reconnectCommand() *cobra.Command {
	var to operator
	var all, wait bool
	cmd := &cobra.Command{
		Use:   "reconnect <server>... | --all",
		Short: "Give servers of a running host a new session",
		Long: `Ends the sessions of the named servers and makes new ones at once. A parked
server wakes with its full number of attempts, one that waits for its next
attempt stops waiting, and the circuit breaker closes with the new session.
Calls in flight at the old session end.

The new session begins without what the host has learnt of the server, such as
the protocol version that it speaks: do this after a server was upgraded.

It does not wait for the new session, unless --wait is given: then it returns
when each server is ready or parked, with exit code 1 if one is not ready.`,
		Example: `  hermes-host reconnect demo
  hermes-host reconnect --wait demo
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
				before, err := c.Status(ctx)
				if err != nil {
					return err
				}
				names, err := c.Reconnect(ctx, args...)
				if err != nil {
					return err
				}
				if wait {
					return awaitReconnect(ctx, c, cmd.OutOrStdout(), before, names)
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
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until each is ready or parked; exit code 1 if one is not ready")
	cmd.ValidArgsFunction = to.servers
	return cmd
}

// awaitReconnect prints what becomes of servers that were asked to reconnect
// after a status, each when it is known, and returns an error if one is not
// ready then.
func awaitReconnect(ctx context.Context, c *admin.Client, w io.Writer, before admin.Status, names []string) error {
	was := map[string]admin.Server{}
	for _, s := range before.Servers {
		was[s.Name] = s
	}
	waiting := map[string]bool{}
	for _, name := range names {
		waiting[name] = true
	}
	start, failed := time.Now(), 0
	done := errors.New("all are settled")
	err := c.Watch(ctx, func(status admin.Status) error {
		there := map[string]bool{}
		for _, now := range status.Servers {
			there[now.Name] = true
			if !waiting[now.Name] || !settled(was[now.Name], now) {
				continue
			}
			delete(waiting, now.Name)
			text := "ready after " + span(time.Since(start))
			if now.State != "ready" {
				failed++
				text = now.State + ": " + plain(now.Reason)
			}
			if _, err := fmt.Fprintf(w, "%s: %s\n", now.Name, text); err != nil {
				return err
			}
		}
		for name := range waiting {
			if !there[name] {
				delete(waiting, name)
				failed++
				if _, err := fmt.Fprintf(w, "%s: removed from the configuration\n", name); err != nil {
					return err
				}
			}
		}
		if len(waiting) == 0 {
			return done
		}
		return nil
	})
	switch {
	case !errors.Is(err, done):
		return err
	case failed > 0:
		return &exit{exitError, fmt.Errorf("%d of %d servers are not ready", failed, len(names))}
	}
	return nil
}

// settled reports whether a reconnect that was asked for when a server was as
// before has come to its end: a session that was being made then is as good as
// one that is made since.
func settled(was, now admin.Server) bool {
	return now.State != "connecting" && now.State != "reconnecting" && now.Changed.After(was.Changed)
}
