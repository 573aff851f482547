package version

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestFrom(t *testing.T) {
	where := runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH
	vcs := []debug.BuildSetting{
		{Key: "vcs", Value: "git"},
		{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"},
		{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
	}
	tests := []struct {
		name  string
		build *debug.BuildInfo
		want  string
	}{
		{"no build information", nil, "devel (" + where + ")"},
		{"not in a repository", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "devel (" + where + ")"},
		{
			"a release",
			&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: vcs},
			"v1.2.3 (commit 0123456789ab, 2026-01-02T03:04:05Z, " + where + ")",
		},
		{
			"a modified tree",
			&debug.BuildInfo{Settings: append(vcs[:2:2], debug.BuildSetting{Key: "vcs.modified", Value: "true"})},
			"devel (commit 0123456789ab, modified, " + where + ")",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := from(tt.build).String(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
