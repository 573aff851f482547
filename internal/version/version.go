// Package version says which build this is.
//
// Nothing is stamped by hand: the Go tool records the module's version and the
// commit in every binary that it builds, and this package reads them back.
package version

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// Info is what is known of a build. Fields that the build did not record are
// empty.
type Info struct {
	Version  string `json:"version"`            // "v1.2.3", or "devel"
	Commit   string `json:"commit,omitempty"`   // the full hash
	Time     string `json:"time,omitempty"`     // of the commit, RFC 3339
	Modified bool   `json:"modified,omitempty"` // built from a tree with uncommitted changes
	Go       string `json:"go"`                 // the Go release, "go1.26.8"
	Platform string `json:"platform"`           // "linux/amd64"
}

// Get returns what the running binary knows of itself.
func Get() Info {
	build, _ := debug.ReadBuildInfo()
	return from(build)
}

// String returns the version alone, as plugins and MCP peers are told it.
func String() string { return Get().Version }

func from(build *debug.BuildInfo) Info {
	info := Info{
		Version:  "devel",
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if build == nil {
		return info
	}
	if v := build.Main.Version; v != "" && v != "(devel)" {
		info.Version = v
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Commit = s.Value
		case "vcs.time":
			info.Time = s.Value
		case "vcs.modified":
			info.Modified = s.Value == "true"
		}
	}
	return info
}

// String returns one line for people.
func (i Info) String() string {
	var details []string
	if i.Commit != "" {
		commit := i.Commit[:min(12, len(i.Commit))]
		if i.Modified {
			commit += ", modified"
		}
		details = append(details, "commit "+commit)
	}
	if i.Time != "" {
		details = append(details, i.Time)
	}
	details = append(details, i.Go, i.Platform)
	return i.Version + " (" + strings.Join(details, ", ") + ")"
}
