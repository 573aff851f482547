package launcher

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

func TestOverlongRunDir(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 90))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", long)
	if runtime.GOOS == "windows" {
		t.Setenv("TMP", long)
	}
	_, err := New(Settings{})
	if err == nil {
		t.Fatal("it was accepted")
	}
	for _, word := range []string{long, "103 is the limit", "TMPDIR"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%q is more than one line", err)
	}
}

func TestSweep(t *testing.T) {
	base, err := os.MkdirTemp("", "hh")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	for _, dir := range []string{"hermes-1", "hermes-99999999-3/plugin-dir1", "hermes-data", "other"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// Two hosts in one directory, each alive: neither sweeps the other.
	a, err := newRunDir(base, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	b, err := newRunDir(base, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Base(a.path), filepath.Base(b.path), "hermes-data", "other"}
	slices.Sort(want)
	if got := names(t, base); !slices.Equal(got, want) {
		t.Errorf("there is %q, want %q", got, want)
	}
	for _, d := range []*runDir{a, b} {
		if err := d.remove(); err != nil {
			t.Error(err)
		}
	}
	if got := names(t, base); !slices.Equal(got, []string{"hermes-data", "other"}) {
		t.Errorf("there is %q in the end", got)
	}
}

func names(t *testing.T, dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestEnviron(t *testing.T) {
	host := []string{"PATH=/bin", "AWS_SECRET=x", "LC_ALL=C", "XDG_CACHE_HOME=/c", "https_proxy=p", "=C:=C:\\", "SystemRoot=C:\\W", "HERMES_VAR_token=t", "LD_PRELOAD=x"}
	command := Command{Env: map[string]string{"PATH": "/own", "HERMES_PLUGIN": "forged"}}
	got := environ(host, false, command, hclog.Warn, []string{"HERMES_PLUGIN=real"})
	want := []string{"PATH=/bin", "LC_ALL=C", "XDG_CACHE_HOME=/c", "https_proxy=p", "HERMES_PLUGIN=forged", "PATH=/own",
		"HERMES_LIFELINE=stdin", "HERMES_LOG_LEVEL=warn", "HERMES_PLUGIN=real"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := environ(host, true, Command{}, hclog.NoLevel, nil); !slices.Contains(got, "SystemRoot=C:\\W") {
		t.Errorf("on Windows: %q", got)
	}
}

func TestKindsInDirectories(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no executable bit")
	}
	first, second := t.TempDir(), filepath.Join(t.TempDir(), "od[d")
	if err := os.Mkdir(second, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{
		filepath.Join(first, prefix+"a"):     0o755,
		filepath.Join(first, prefix+"plain"): 0o644,
		filepath.Join(first, prefix+"x.y"):   0o755,
		filepath.Join(second, prefix+"a"):    0o755,
		filepath.Join(second, prefix+"b"):    0o755,
		filepath.Join(second, prefix+"c"):    0o755,
	} {
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	base, err := os.MkdirTemp("", "hh")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	l, err := New(Settings{PluginDirs: []string{first, second}, RunDir: base, Commands: map[string]Command{"c": {Path: "/own/c"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(context.Background())
	want := []Kind{
		{Kind: "a", Path: filepath.Join(first, prefix+"a")},
		{Kind: "b", Path: filepath.Join(second, prefix+"b")},
		{Kind: "c", Path: "/own/c", Named: true},
	}
	if got := l.Kinds(); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
