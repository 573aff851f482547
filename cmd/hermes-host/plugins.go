package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/spf13/cobra"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/hermes-host/hermes-host/host/config"
	"github.com/hermes-host/hermes-host/host/launcher"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// pluginEntry is what the command tells of a plugin.
type pluginEntry struct {
	Kind         string           `json:"kind"`
	Path         string           `json:"path"`
	Configured   bool             `json:"configured"` // by a plugin block
	Version      string           `json:"version,omitempty"`
	Features     []string         `json:"features,omitempty"`
	MultiSession bool             `json:"multiSession"`
	Schema       []attributeEntry `json:"schema,omitempty"`
	Error        string           `json:"error,omitempty"` // it does not work
}

type attributeEntry struct {
	Name      string          `json:"name"`
	Type      string          `json:"type"`
	Required  bool            `json:"required"`
	Default   json.RawMessage `json:"default,omitempty"`
	Sensitive bool            `json:"sensitive,omitempty"`
	Doc       string          `json:"doc,omitempty"`
}

func pluginsCommand() *cobra.Command {
	var from source
	var logs logFlags
	var output outputFormat
	cmd := &cobra.Command{
		Use:   "plugins",
		Short: "List the transport plugins and the attributes that they understand",
		Long: `Finds the transport plugins beside this program and those that the
configuration's plugin blocks name, starts each, and prints what it says of
itself: its version and the attributes of its transport block. A plugin that
does not work is listed with the reason, and the exit code is then 1.

Without a configuration file only the plugins beside this program are listed.`,
		Example: `  hermes-host plugins
  hermes-host plugins -o json
  hermes-host plugins -c config.hcl`,
		Args: arguments(none),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := logs.check(); err != nil {
				return err
			}
			file := new(config.File)
			if _, missing := findConfig("", true); from.path != "" || missing == nil {
				var err error
				if file, _, err = from.read(cmd, logs, true); err != nil {
					return err
				}
			}
			h, err := consulting(cmd, logs, file)
			if err != nil {
				return err
			}
			defer h.Close()
			entries := []pluginEntry{}
			failed := false
			for _, p := range h.Plugins(cmd.Context()) {
				entry := pluginEntry{Kind: p.Kind.Kind, Path: p.Path, Configured: p.Named}
				err := p.Fault
				if err == nil {
					err = entry.describe(p.Description)
				}
				if err != nil {
					entry.Error, failed = err.Error(), true
				}
				entries = append(entries, entry)
			}
			if output.json() {
				err = printJSON(cmd, entries)
			} else {
				err = printPlugins(cmd.OutOrStdout(), entries)
			}
			if err == nil && failed {
				err = &exit{code: exitError}
			}
			return err
		},
	}
	from.flags(cmd)
	logs.flags(cmd)
	output.flag(cmd)
	return cmd
}

func (e *pluginEntry) describe(about launcher.Description) error {
	e.Path, e.Version, e.Features, e.MultiSession = about.Path, about.Version, about.Features, about.MultiSession
	for _, a := range about.Schema {
		entry, err := describeAttribute(a)
		if err != nil {
			return err
		}
		e.Schema = append(e.Schema, entry)
	}
	return nil
}

func describeAttribute(a *transportpb.Attribute) (attributeEntry, error) {
	t, err := ctyjson.UnmarshalType(a.GetType())
	if err != nil {
		return attributeEntry{}, fmt.Errorf("type of attribute %s: %w", a.GetName(), err)
	}
	return attributeEntry{
		Name: a.GetName(), Type: typeexpr.TypeString(t), Required: a.GetRequired(),
		Default: a.GetDefault(), Sensitive: a.GetSensitive(), Doc: a.GetDoc(),
	}, nil
}

func printPlugins(w io.Writer, entries []pluginEntry) error {
	var err error
	line := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format+"\n", args...)
		}
	}
	for i, e := range entries {
		if i > 0 {
			line("")
		}
		line("%s  %s  %s", e.Kind, e.Version, e.Path)
		if e.Error != "" {
			line("  does not work: %s", e.Error)
		}
		for _, a := range e.Schema {
			facts := a.Type
			switch {
			case a.Required:
				facts += ", required"
			case len(a.Default) > 0:
				facts += ", default " + string(a.Default)
			}
			if a.Sensitive {
				facts += ", sensitive"
			}
			line("  %s (%s)", a.Name, facts)
			if a.Doc != "" {
				line("      %s", a.Doc)
			}
		}
	}
	return err
}
