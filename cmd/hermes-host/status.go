package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/hermes-host/hermes-host/host/admin"
)

func statusCommand() *cobra.Command {
	var to operator
	var output outputFormat
	var watch bool
	cmd := &cobra.Command{
		Use:   "status [server]",
		Short: "Show the state of a running host and its servers",
		Long: `Shows the servers of a running host: the state of each, since when and why, the
attempts left before it parks, when the next attempt is, its circuit breaker,
sessions (up now / so far), calls (total / failed / in flight), tools, the latest
error, and what should be changed in its configuration. On a terminal the reasons
of servers that are not ready follow below them if they don't fit, and narrow ones
leave columns out. With a name it shows all that is known of one server, such as
entries that are not served, or not at /mcp, and why.

With -w it stays and shows every change; with -w -o json as one object a line.`,
		Example: `  hermes-host status
  hermes-host status demo
  hermes-host status -w
  hermes-host status -o json`,
		Args: arguments(oneServer),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			v := &statusView{w: cmd.OutOrStdout(), server: name, json: output.json(), watch: watch}
			v.measure()
			return to.ask(cmd, func(ctx context.Context, c *admin.Client) error {
				if watch {
					return v.follow(ctx, c)
				}
				status, err := c.Status(ctx)
				if err != nil {
					return err
				}
				return v.show(status)
			})
		},
	}
	to.flags(cmd)
	output.flag(cmd)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "stay, and show every change")
	cmd.ValidArgsFunction = to.servers
	return cmd
}

// A statusView shows statuses.
type statusView struct {
	w        io.Writer
	server   string // only this one, in detail; empty: all
	json     bool
	watch    bool
	terminal bool
	color    bool
	width    int // columns; 0: not bounded
	shown    bool
}

// measure looks at where the output goes.
func (v *statusView) measure() {
	v.terminal = isTerminal(v.w)
	v.color = v.terminal && os.Getenv("NO_COLOR") == ""
	if f, ok := v.w.(*os.File); ok && v.terminal {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			v.width = width
		}
	}
}

// follow shows the status whenever it changes. On a terminal ages go on in
// between.
func (v *statusView) follow(ctx context.Context, c *admin.Client) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	statuses := make(chan admin.Status)
	ended := make(chan error, 1)
	go func() {
		ended <- c.Watch(ctx, func(s admin.Status) error {
			select {
			case statuses <- s:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}()
	age := time.NewTicker(time.Second)
	defer age.Stop()
	var last *admin.Status
	for {
		select {
		case err := <-ended:
			return err
		case s := <-statuses:
			last = &s
		case <-age.C:
			if !v.terminal || v.json {
				continue
			}
		}
		if last != nil {
			v.measure()
			if err := v.show(*last); err != nil {
				cancel()
				<-ended
				return err
			}
		}
	}
}

// show writes a status.
func (v *statusView) show(s admin.Status) error {
	var server *admin.Server
	if v.server != "" {
		if err := admin.Known(s, v.server); err != nil {
			return err
		}
		for i := range s.Servers {
			if s.Servers[i].Name == v.server {
				server = &s.Servers[i]
			}
		}
	}
	if v.json {
		e := json.NewEncoder(v.w)
		e.SetEscapeHTML(false)
		if !v.watch {
			e.SetIndent("", "  ")
		}
		if server != nil {
			return e.Encode(server)
		}
		return e.Encode(s)
	}
	var b strings.Builder
	if server != nil {
		v.detail(&b, *server)
	} else {
		v.head(&b, s)
		v.table(&b, s.Servers)
	}
	text := b.String()
	switch {
	case v.watch && v.terminal:
		// Over what is there, so that nothing flickers.
		text = "\x1b[H" + strings.ReplaceAll(text, "\n", "\x1b[K\n") + "\x1b[J"
		if !v.shown {
			text = "\x1b[2J" + text
		}
	case v.shown:
		text = "\n" + text
	}
	v.shown = true
	_, err := io.WriteString(v.w, text)
	return err
}

// head says what there is to say about the host.
func (v *statusView) head(b *strings.Builder, s admin.Status) {
	state := "starting"
	switch {
	case s.Stopping:
		state = "stopping"
	case s.Ready:
		state = "ready"
	}
	where := "for one client"
	if s.Host.URL != "" {
		where = "at " + s.Host.URL
	}
	clients := "1 client"
	if s.Clients != 1 {
		clients = fmt.Sprintf("%d clients", s.Clients)
	}
	fmt.Fprintf(b, "hermes-host %s, %s %s, up %s, process %d, %s\n", s.Host.Version, state, where, span(time.Since(s.Host.Started)), s.Host.PID, clients)
	fmt.Fprintf(b, "configuration %s\n", plain(s.Host.Config))
	if s.Missing != nil {
		fmt.Fprintf(b, "%s, as was seen %s ago; the host goes on with what it has read\n", plain(s.Missing.Why), span(time.Since(s.Missing.Since)))
	}
	if s.Reload != nil && s.Reload.Error != "" {
		fmt.Fprintf(b, "the latest change of it was refused %s ago: %s\n", span(time.Since(s.Reload.At)), plain(s.Reload.Error))
	}
	for _, server := range s.Servers {
		if n := server.Next; n != nil {
			fmt.Fprintf(b, "being applied for %s: %s, %s\n", span(time.Since(n.Since)), server.Name, plain(awaited(*n)))
		}
	}
	if len(s.Restart) > 0 {
		fmt.Fprintf(b, "needs a restart: %s\n", strings.Join(s.Restart, ", "))
	}
	for _, e := range s.Endpoints {
		if e.Advice != "" {
			fmt.Fprintf(b, "endpoint %s: advice: %s\n", e.Name, plain(e.Advice))
		}
	}
	b.WriteByte('\n')
}

// detail writes all that is known of a server.
func (v *statusView) detail(b *strings.Builder, s admin.Server) {
	line := func(key, format string, args ...any) {
		fmt.Fprintf(b, "%-13s %s\n", key, plain(fmt.Sprintf(format, args...)))
	}
	line("server", "%s", s.Name)
	line("configured", "%s", s.Place)
	line("transport", "%s %s", cmp.Or(s.Transport, "(not known: the plugin does not work)"), s.Settings)
	line("state", "%s for %s: %s", s.State, span(time.Since(s.Since)), reason(s))
	if s.Next != nil {
		line("changed", "%s ago (%s); %s", span(time.Since(s.Next.Since)), strings.Join(s.Next.Settings, ", "), awaited(*s.Next))
	}
	if t := s.Trouble; t != nil {
		line("trouble", "for %s: %s: %s", span(time.Since(t.Since)), t.Text, t.Error)
		line("what to do", "%s", t.Cure)
	}
	if s.Waits != "" {
		line("waits", "%s", s.Waits)
	}
	if s.Authorize && s.Trouble == nil {
		line("authorize", "the server refuses calls until somebody authorizes the host")
	}
	if s.Advice != "" {
		line("advice", "%s", s.Advice)
	}
	if s.NextAttempt != nil {
		line("next attempt", "%s", ahead("in ", time.Until(*s.NextAttempt)))
	}
	if retried(s) {
		line("attempts", "%d failed in a row, %d left before it parks", s.Failed, s.Left)
	} else {
		line("attempts", "%d failed in a row", s.Failed)
	}
	if s.LastError != "" && s.LastErrorAt != nil {
		line("last error", "%s ago: %s", span(time.Since(*s.LastErrorAt)), s.LastError)
	}
	line("breaker", "%s, %d failures in a row", breakerText(s.Breaker), s.Breaker.Failures)
	clients := ""
	if s.Clients > 0 {
		clients = fmt.Sprintf("; %d that clients have for themselves", s.Clients)
	}
	line("sessions", "%d up, %d so far, generation %d%s", s.Sessions, s.Starts, s.Generation, clients)
	if s.Peer != nil {
		line("speaks", "MCP %s %s", s.Peer.Protocol, s.Peer.Info)
		switch {
		case s.Peer.PID != 0:
			line("process", "%d, of plugin %d", s.Peer.PID, s.Peer.Plugin)
		case s.Peer.Plugin != 0:
			line("process", "that of its plugin, %d", s.Peer.Plugin)
		}
	}
	line("calls", "%d, of which %d failed; %d in flight; %d were sent twice", s.Calls.Total, s.Calls.Failed, s.Calls.InFlight, s.Calls.Replayed)
	c := s.Catalog
	offers := "offers"
	if !c.Live {
		offers = "would offer"
	}
	line(offers, "%d tools, %d prompts, %d resources, %d resource templates; %d held back by filters", c.Tools, c.Prompts, c.Resources, c.Templates, c.Filtered)
	for _, p := range c.Quarantined {
		line("left out", "%s %q: %s", p.List, p.Name, p.Reason)
	}
	for _, p := range c.Shadowed {
		line("not at /mcp", "%s %q: %s", p.List, p.Name, p.Reason)
	}
	for _, r := range c.Renamed {
		line("renamed", "%s %q is %q", r.List, r.Name, r.Outer)
	}
	for _, note := range c.Notes {
		line("note", "%s", note)
	}
	for _, own := range s.ClientSessions {
		line("of a client", "%s", textOfSession(own))
	}
	if n := len(s.ClientSessions); s.Clients > n {
		line("of a client", "… and %d more", s.Clients-n)
	}
}

// awaited says how far a new session is.
func awaited(n admin.Next) string {
	text := "its new session is " + n.State
	if n.Failed > 0 {
		text += fmt.Sprintf(", attempt %d", n.Failed+1)
	}
	if n.LastError != "" {
		text += "; last error: " + n.LastError
	}
	return text
}

// textOfSession describes a session that a client has for itself.
func textOfSession(s admin.ClientSession) string {
	text := fmt.Sprintf("session %s of %s: %s for %s", s.ID, s.Client, s.State, span(time.Since(s.Since)))
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	switch {
	case s.PID != 0:
		text += fmt.Sprintf("; process %d, of plugin %d", s.PID, s.Plugin)
	case s.Plugin != 0:
		text += fmt.Sprintf("; process that of its plugin, %d", s.Plugin)
	}
	return text + fmt.Sprintf("; calls %d, of which %d failed; %d in flight", s.Calls.Total, s.Calls.Failed, s.Calls.InFlight)
}
