package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hermes-host/hermes-host/internal/version"
)

// Exit codes. Part of the command line's contract; see docs/operations.md.
const (
	exitOK          = 0
	exitError       = 1 // the configuration or something at run time is wrong
	exitUsage       = 2 // the command line is wrong
	exitToolError   = 3 // call: the tool answered with an error, or the host did in the server's place
	exitUnreachable = 4 // tools, call, status and the like: no host answers
)

const rootHelp = `hermes-host keeps MCP servers running and serves them from one place.

Servers are described in a configuration file. Each is reached through a
transport plugin, brought back whenever it dies, and offered to MCP clients at
http://127.0.0.1:7717/mcp (all servers) and /mcp/<server> (one of them), or on
standard input and output with "hermes-host stdio".

Exit codes:
  0    success
  1    the configuration is wrong, or something failed at run time
  2    the command line is wrong
  3    call: the tool answered with an error, or the host did in the server's place
  4    tools, call, status and the like: no host answers
  130  ended at once by a second interrupt; 143 by a second SIGTERM

Long flags may be written with one dash or two.`

// An exit is an error with an exit code of its own. Without a cause it is
// silent: what there was to say has been said.
type exit struct {
	code  int
	cause error
}

func (e *exit) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.cause.Error()
}

func (e *exit) Unwrap() error { return e.cause }

// usage marks an error in how the command was called.
func usage(err error) error { return &exit{exitUsage, err} }

// execute runs one command line and returns the exit code. It prints errors
// itself, on stderr, once.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(doubleDashes(root, args))
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	strict(root)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	e, ok := errors.AsType[*exit](err)
	if !ok {
		e = &exit{exitError, err}
	}
	if e.cause != nil {
		fmt.Fprintf(stderr, "hermes-host: %v\n", e.cause)
	}
	if e.code == exitUsage {
		fmt.Fprintf(stderr, "Run \"%s --help\" for usage.\n", cmd.CommandPath())
	}
	return e.code
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "hermes-host",
		Short:         "Keep MCP servers running and serve them from one place",
		Long:          rootHelp,
		Version:       version.Get().String(),
		SilenceErrors: true,
		SilenceUsage:  true,

		SuggestionsMinimumDistance: 2,

		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("hermes-host {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	root.AddCommand(
		runCommand(), stdioCommand(), validateCommand(), pluginsCommand(),
		toolsCommand(), callCommand(), demoCommand(), versionCommand(),
		statusCommand(), reconnectCommand(), parkCommand(), reloadCommand(), logsCommand(), eventsCommand(),
	)
	return root
}

// strict makes the commands that cobra adds refuse what they do not know, as
// all others do. It comes after the streams are set, which completion remembers.
func strict(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				of, rest, err := root.Find(args)
				if err != nil {
					return usage(err)
				}
				return knownCommand(of, rest)
			}
		case "completion":
			cmd.Args = knownCommand
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// arguments makes the errors of an argument check usage errors.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usage(err)
		}
		return nil
	}
}

// none is the check of a command that takes no arguments.
func none(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return nil
}

// oneServer is the check of a command that may be given the name of a server.
func oneServer(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return errors.New("name one server at most")
	}
	return nil
}

// doubleDashes turns long flags written with a single dash, as in -log-level,
// into what the flag parser expects. Only names of flags that exist are
// touched, and nothing after "--".
func doubleDashes(root *cobra.Command, args []string) []string {
	long := map[string]bool{"help": true, "version": true}
	for _, cmd := range append(root.Commands(), root) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { long[f.Name] = len(f.Name) > 1 })
	}
	out := make([]string, 0, len(args))
	for i, arg := range args {
		if arg == "--" {
			return append(out, args[i:]...)
		}
		if rest, ok := strings.CutPrefix(arg, "-"); ok {
			if name, _, _ := strings.Cut(rest, "="); long[name] {
				arg = "-" + arg
			}
		}
		out = append(out, arg)
	}
	return out
}

// knownCommand refuses what is no command, with those that it may have meant.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	msg := fmt.Sprintf("unknown command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		msg += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usage(errors.New(msg))
}
