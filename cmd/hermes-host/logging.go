package main

import (
	"cmp"
	"fmt"
	"io"
	"os"

	"github.com/hashicorp/go-hclog"
	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
)

// logFlags are the settings of the log on the command line. What is left out
// comes from the configuration.
type logFlags struct {
	level, format string
}

func (l *logFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.level, "log-level", "", "trace, debug, info, warn or error (default: the configuration's, else info)")
	cmd.Flags().StringVar(&l.format, "log-format", "", "text for people, json for programs, or auto: text on a terminal, else json (default: the configuration's, else auto)")
	_ = cmd.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions([]string{"trace", "debug", "info", "warn", "error"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("log-format", cobra.FixedCompletions([]string{"auto", "text", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

// check refuses values that are none.
func (l *logFlags) check() error {
	switch l.format {
	case "", "auto", "text", "json":
	default:
		return usage(fmt.Errorf(`--log-format is %q; it must be auto, text or json`, l.format))
	}
	if l.level != "" && hclog.LevelFromString(l.level) == hclog.NoLevel {
		return usage(fmt.Errorf(`--log-level is %q; it must be trace, debug, info, warn or error`, l.level))
	}
	return nil
}

// logger returns the log on w. level and format are the configuration's; the
// flags win over them. Operators can see its lines, too.
func (l *logFlags) logger(w io.Writer, level, format string) hclog.InterceptLogger {
	terminal := isTerminal(w)
	format = cmp.Or(l.format, format, "auto")
	opts := &hclog.LoggerOptions{
		Name:       "hermes-host",
		Level:      hclog.LevelFromString(cmp.Or(l.level, level, "info")),
		Output:     w,
		JSONFormat: format == "json" || format == "auto" && !terminal,
	}
	if terminal && os.Getenv("NO_COLOR") == "" {
		opts.Color = hclog.ForceColor
		opts.ColorHeaderOnly = true
	}
	return hclog.NewInterceptLogger(opts)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && (isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd()))
}
