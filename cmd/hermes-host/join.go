package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/hermes-host/hermes-host/host/admin"
	"github.com/hermes-host/hermes-host/internal/version"
)

// join serves the client through the host that runs with the configuration, if
// one does. It reports false if the client needs a host of its own.
func (s *source) join(cmd *cobra.Command, logs logFlags) (bool, error) {
	if err := logs.check(); err != nil {
		return false, err
	}
	path, _, err := s.find(false)
	if err != nil {
		return false, err
	}
	log := logs.logger(cmd.ErrOrStderr(), "", "")
	c, err := admin.Shared(cmd.Context(), path)
	if err != nil {
		return false, nil
	}
	joint, err := c.Join(cmd.Context())
	if err != nil {
		log.Warn("the host that runs with this configuration can't be joined; starting another", "config", path, "error", err)
		return false, nil
	}
	log.Info("joined a running host", "config", path, "process", joint.PID)
	if mine := version.String(); joint.Version != mine {
		log.Warn("the running host is of another version; restart it to use this one", "running", joint.Version, "this", mine)
	}
	err = joint.Pipe(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
	if errors.Is(err, admin.ErrHostGone) {
		err = errors.New("the host that this client had joined has ended; restart the client, or its server, to connect again")
	}
	if err != nil && errors.Is(cmd.Context().Err(), context.Canceled) {
		err = nil
	}
	return true, err
}
