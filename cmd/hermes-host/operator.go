package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/hermes-host/hermes-host/host/admin"
)

// operator says which running host the operator's commands are for.
type operator struct {
	config, socket string
}

func (o *operator) flags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.config, "config", "c", "", "the host that runs with this configuration (default: the one with the configuration that \"run\" would use, or the only one that runs)")
	cmd.Flags().StringVar(&o.socket, "socket", "", "the host with this admin socket")
	_ = cmd.MarkFlagFilename("config", "hcl", "json")
	cmd.MarkFlagsMutuallyExclusive("config", "socket")
}

// client finds the host. The error is an *exit with exitUnreachable if there
// is none.
func (o *operator) client(ctx context.Context) (*admin.Client, error) {
	if o.socket != "" {
		return admin.NewClient(o.socket), nil
	}
	if o.config == "" {
		if path, err := findConfig("", true); err == nil {
			if c, err := admin.Find(ctx, path); err == nil {
				return c, nil
			}
		}
	}
	c, err := admin.Find(ctx, o.config)
	if err != nil {
		return nil, &exit{exitUnreachable, err}
	}
	return c, nil
}

// ask finds the host and runs f with it, and gives the errors their exit codes.
func (o *operator) ask(cmd *cobra.Command, f func(context.Context, *admin.Client) error) error {
	ctx := cmd.Context()
	c, err := o.client(ctx)
	if err == nil {
		err = f(ctx, c)
	}
	refusal, refused := errors.AsType[*admin.Error](err)
	_, coded := errors.AsType[*exit](err)
	switch {
	case err == nil || ctx.Err() != nil:
		return nil // an interrupt is how following ends
	case refused && refusal.Text != "":
		if _, err := io.WriteString(cmd.ErrOrStderr(), refusal.Text); err != nil {
			return err
		}
		return configRefused{refusal: refusal}
	case refused || coded:
		return err
	case errors.Is(err, io.EOF):
		return &exit{exitUnreachable, errors.New("the host has ended")}
	}
	return &exit{exitUnreachable, err}
}

// configRefused is a refusal whose diagnostics have been shown.
type configRefused struct {
	refusal *admin.Error
	dry     bool // nothing was asked for but to check it
}

func (e configRefused) Error() string {
	if e.dry {
		return "the configuration would be refused"
	}
	return "the configuration was refused; the host goes on with what it has"
}

func (e configRefused) Unwrap() error { return e.refusal }

// servers completes the names of a running host's servers.
func (o *operator) servers(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	c, err := o.client(ctx)
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	status, err := c.Status(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, s := range status.Servers {
		names = append(names, s.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// plain makes a text from elsewhere fit for one line of a terminal.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

// cut shortens a text to n columns.
func cut(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	if n <= 0 {
		return ""
	}
	return string(runes[:n-1]) + "…"
}

// quoted writes a value as logs do: with quotes if it needs them.
func quoted(text string) string {
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' || r == '"' || r == '=' }) {
		return strconv.Quote(text)
	}
	return text
}

// ahead writes how far off a moment is, after a prefix unless it is now.
func ahead(prefix string, d time.Duration) string {
	if d < 50*time.Millisecond { // what span rounds to nothing
		return "now"
	}
	return prefix + span(d)
}

// span writes a length of time for people: two units at most.
func span(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}
