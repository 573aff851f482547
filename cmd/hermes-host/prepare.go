package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-host/hermes-host/host"
	"github.com/hermes-host/hermes-host/host/admin"
	"github.com/hermes-host/hermes-host/host/config"
	"github.com/hermes-host/hermes-host/internal/version"
)

// A source says which configuration to use, and with which variables.
type source struct {
	path string
	vars []string
}

func (s *source) flags(cmd *cobra.Command) {
	configFlag(cmd, &s.path)
	cmd.Flags().StringArrayVar(&s.vars, "var", nil, "value of a variable of the configuration, as name=value; may be repeated")
}

// read finds and reads the file, and returns its path too. Diagnostics go to
// stderr; the error is silent where they say all there is.
func (s *source) read(cmd *cobra.Command, logs logFlags, own bool) (file *config.File, path string, err error) {
	path, load, err := s.find(own)
	if err != nil {
		return nil, "", err
	}
	file, diags := load("")
	return file, path, refuse(cmd, logs, file, diags)
}

// find finds the file and returns its path, and a function that reads it, or
// another one in the same way if that is named.
func (s *source) find(own bool) (path string, load func(other string) (*config.File, config.Diagnostics), err error) {
	vars := map[string]string{}
	for _, pair := range s.vars {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return "", nil, usage(fmt.Errorf("--var %q is not name=value", pair))
		}
		vars[name] = value
	}
	path, err = findConfig(s.path, own)
	if err != nil {
		return "", nil, err
	}
	return path, func(other string) (*config.File, config.Diagnostics) {
		return config.Load(cmp.Or(other, path), config.Options{Vars: vars, Version: version.String()})
	}, nil
}

// consulting returns a host that serves nobody: it asks the plugins of a file
// what they know, and logs errors alone. Its user closes it.
func consulting(cmd *cobra.Command, logs logFlags, file *config.File) (*host.Host, error) {
	return host.New(file, host.Settings{
		Logger:  logs.logger(cmd.ErrOrStderr(), "error", file.Log().Format),
		Version: version.String(),
	})
}

// refuse prints the diagnostics of a file that was read. If it has errors, those
// that the plugins find in it are added, and the error is silent.
func refuse(cmd *cobra.Command, logs logFlags, file *config.File, diags config.Diagnostics) error {
	failed := diags.HasErrors()
	if failed && file != nil {
		h, err := consulting(cmd, logs, file)
		if err != nil {
			return err
		}
		defer h.Close()
		_, diags = h.Resolve(cmd.Context())
	}
	return report(cmd.ErrOrStderr(), diags, failed)
}

// report prints diagnostics, and returns a silent error if failed says so.
func report(stderr io.Writer, diags config.Diagnostics, failed bool) error {
	if diags.Len() > 0 {
		if err := diags.Write(stderr); err != nil {
			return err
		}
	}
	if failed {
		return &exit{code: exitError}
	}
	return nil
}

// serve makes a host of the configuration and runs it. Own and listen are those
// of find and [host.Settings].
func (s *source) serve(cmd *cobra.Command, logs logFlags, own, watch bool, listen string, run func(context.Context, *host.Host) error) error {
	if err := logs.check(); err != nil {
		return err
	}
	path, load, err := s.find(own)
	if err != nil {
		return err
	}
	file, diags := load("")
	if err := refuse(cmd, logs, file, diags); err != nil {
		return err
	}
	if err := checkListen(listen); err != nil {
		return err
	}
	log := logs.logger(cmd.ErrOrStderr(), file.Log().Level, file.Log().Format)
	settings := host.Settings{Logger: log, Listen: listen, Version: version.String(), Adopt: true, Admin: true, Load: load, Watch: watch}
	if !own {
		// The client that started this host asks for the lists at once, and
		// often only once.
		settings.FirstList = 10 * time.Second
	}
	shareProcessors()
	h, err := host.New(file, settings)
	if err != nil {
		return err
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	log.Info("starting", "version", version.String(), "config", path)
	defer context.AfterFunc(cmd.Context(), func() {
		log.Info("ending in order; a second signal ends everything at once")
	})()
	err = run(cmd.Context(), h)
	if wrong, ok := errors.AsType[*host.ConfigError](err); ok {
		return report(cmd.ErrOrStderr(), wrong.Diagnostics, true)
	}
	if taken, ok := errors.AsType[*host.ListenError](err); ok {
		return elsewhere(cmd.Context(), taken)
	}
	return err
}

// elsewhere says what to do about an address that can't be had, and which host has
// it, if one of this user does.
func elsewhere(ctx context.Context, taken *host.ListenError) error {
	for _, one := range admin.Running(ctx) {
		if u, err := url.Parse(one.URL); err == nil && overlap(u.Host, taken.Address) {
			return fmt.Errorf("listening for clients: %w: a hermes-host has it (process %d, with %s); take another address with --listen or in the configuration's listen block", taken.Err, one.PID, one.Config)
		}
	}
	return fmt.Errorf("listening for clients: %w; stop what uses the address, or take another one with --listen or in the configuration's listen block", taken.Err)
}

// overlap reports whether who listens at one address is in the way of another.
func overlap(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	everywhere := func(host string) bool {
		ip := net.ParseIP(host)
		return host == "" || host == "localhost" || ip != nil && ip.IsUnspecified()
	}
	return errA == nil && errB == nil && portA == portB && (hostA == hostB || everywhere(hostA) || everywhere(hostB))
}

// checkListen refuses what is no address.
func checkListen(listen string) error {
	if _, _, err := net.SplitHostPort(listen); listen != "" && err != nil {
		return usage(fmt.Errorf("--listen %q is not host:port, such as 127.0.0.1:7717", listen))
	}
	return nil
}
