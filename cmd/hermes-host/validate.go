package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func validateCommand() *cobra.Command {
	var from source
	var logs logFlags
	cmd := &cobra.Command{
		Use:   "validate [file]",
		Short: "Check a configuration without connecting to anything",
		Long: `Reads the configuration, starts the transport plugins that it names, and lets
them check the transport blocks, just as "run" does before it starts anything.
No server is started or connected to.

All mistakes are reported together, with their places in the file; but where
the syntax or the outermost blocks are wrong, those come first. The exit code is 0
if the configuration is valid and 1 if it is not. The file may be named with
--config as well; without either it is the one that "run" would use.`,
		Example: `  hermes-host validate
  hermes-host validate /etc/hermes-host/config.hcl
  hermes-host validate --var token=secret`,
		Args: arguments(func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && from.path != "" {
				return errors.New("name one configuration file, once")
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				from.path = args[0]
			}
			if err := logs.check(); err != nil {
				return err
			}
			file, path, err := from.read(cmd, logs, true)
			if err != nil {
				return err
			}
			h, err := consulting(cmd, logs, file)
			if err != nil {
				return err
			}
			defer h.Close()
			cfg, diags := h.Resolve(cmd.Context())
			if err := report(cmd.ErrOrStderr(), diags, diags.HasErrors()); err != nil {
				return err
			}
			servers := "servers"
			if len(cfg.Servers) == 1 {
				servers = "server"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: configuration is valid: %d %s\n", path, len(cfg.Servers), servers)
			return err
		},
	}
	from.flags(cmd)
	logs.flags(cmd)
	cmd.ValidArgsFunction = cobra.FixedCompletions([]string{"hcl", "json"}, cobra.ShellCompDirectiveFilterFileExt)
	return cmd
}
