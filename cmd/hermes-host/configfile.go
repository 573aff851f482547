package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
)

func configFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVarP(path, "config", "c", "", "configuration file; see \"hermes-host run --help\" for what is used if left out")
	_ = cmd.MarkFlagFilename("config", "hcl", "json")
}

// findConfig returns the configuration file to use: the one that was named, or
// the first that exists. The working directory is looked at only if own is
// true: commands that another program starts, in a directory of its choosing,
// must not run what a stranger's directory says.
func findConfig(named string, own bool) (string, error) {
	if named != "" {
		if _, err := os.Stat(named); err != nil {
			return "", unreadable(named, err)
		}
		return named, nil
	}
	places := configPlaces(own)
	for _, path := range places {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", errors.New("no configuration file; name one with --config, or put it in one of:\n  " + strings.Join(places, "\n  "))
}

// unreadable says of a configuration file that was named why there is none.
func unreadable(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no configuration file %s", path)
	}
	if wrapped, ok := errors.AsType[*fs.PathError](err); ok {
		err = wrapped.Err // it names the file as well
	}
	return fmt.Errorf("the configuration file %s can't be read: %w", path, err)
}

// configPlaces lists where a configuration file is looked for, in order.
func configPlaces(own bool) []string {
	var places []string
	if own {
		places = append(places, "config.hcl")
	}
	if dir := userConfigDir(); dir != "" {
		places = append(places, filepath.Join(dir, "hermes-host", "config.hcl"))
	}
	if runtime.GOOS != "windows" {
		places = append(places, "/etc/hermes-host/config.hcl")
	}
	if exe, err := executable(); err == nil {
		dir := filepath.Dir(exe)
		places = append(places,
			filepath.Join(dir, "config.hcl"),                                       // an unpacked release
			filepath.Join(filepath.Dir(dir), "share", "hermes-host", "config.hcl"), // make install
		)
	}
	return places
}

// userConfigDir is $XDG_CONFIG_HOME, also on macOS, where command line tools
// are expected to follow it too; on Windows it is %AppData%.
func userConfigDir() string {
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	if runtime.GOOS == "windows" {
		return os.Getenv("AppData")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".config")
}

// executable returns the path of this program, links resolved.
func executable() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(exe)
}
