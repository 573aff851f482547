package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// report prints what was measured over one kind of upstream.
func report(w io.Writer, kind string, direct, host []figures, u usage) {
	fmt.Fprintf(w, "\n### %s upstream\n\n", kind)
	fmt.Fprintf(w, "| measure | direct | through the host | ratio |\n|---|---:|---:|---:|\n")
	for _, m := range []struct {
		name string
		of   func(figures) time.Duration
	}{
		{"sequential call, p50", func(f figures) time.Duration { return f.p50 }},
		{"sequential call, p99", func(f figures) time.Duration { return f.p99 }},
		{"64 KiB result, p50", func(f figures) time.Duration { return f.result64K }},
		{"1 MiB result, p50", func(f figures) time.Duration { return f.result1M }},
		{"tools/list, 20 tools", func(f figures) time.Duration { return f.list20 }},
		{"tools/list, 1,000 tools", func(f figures) time.Duration { return f.list1K }},
	} {
		d, h := median(direct, m.of), median(host, m.of)
		fmt.Fprintf(w, "| %s | %s | %s | x%.2f |\n", m.name, ms(d), ms(h), float64(h)/float64(d))
	}
	for _, n := range inFlight {
		of := func(f figures) float64 { return f.perSecond[n] }
		d, h := median(direct, of), median(host, of)
		fmt.Fprintf(w, "| calls/s, %d in flight | %.0f | %.0f | x%.2f |\n", n, d, h, h/d)
	}
	fmt.Fprintf(w, "\n| the host's cost | |\n|---|---:|\n")
	fmt.Fprintf(w, "| resident with 1,020 tools, host, before → after load | %.1f → %.1f MiB |\n", u.idle.host, u.loaded.host)
	fmt.Fprintf(w, "| resident, largest plugin, before → after load | %.1f → %.1f MiB |\n", u.idle.plugin, u.loaded.plugin)
	fmt.Fprintf(w, "| CPU, host and plugins, per 10,000 calls at 16 in flight | %.2f s |\n", u.cpu)
	for _, r := range u.recoveries {
		fmt.Fprintf(w, "| next call after kill -9 of the %s, median / worst of %d | %s / %s |\n",
			r.of, len(r.took), ms(r.took[len(r.took)/2]), ms(r.took[len(r.took)-1]))
	}
}

// reportStanding prints what the host needs with its default configuration.
func reportStanding(w io.Writer, ready []time.Duration, idle memory) {
	same := func(d time.Duration) time.Duration { return d }
	fmt.Fprintf(w, "\n### Default configuration\n\n| | |\n|---|---:|\n")
	fmt.Fprintf(w, "| from start to the first list with tools | %s |\n", ms(median(ready, same)))
	fmt.Fprintf(w, "| resident when idle, host / plugin | %.1f / %.1f MiB |\n", idle.host, idle.plugin)
}

func median[T any, N time.Duration | float64](all []T, of func(T) N) N {
	vals := make([]N, len(all))
	for i, a := range all {
		vals[i] = of(a)
	}
	slices.Sort(vals)
	return vals[len(vals)/2]
}

func ms(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.2f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
}

// machine describes where the figures come from.
func machine() string {
	cpu := "unknown processor"
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				cpu = strings.TrimSpace(strings.TrimLeft(name, "\t :"))
				break
			}
		}
	}
	sdk := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if strings.HasSuffix(d.Path, "/go-sdk") {
				sdk = ", client and upstream on go-sdk " + d.Version
			}
		}
	}
	return fmt.Sprintf("%s/%s, %d cores (%s), %s%s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), cpu, runtime.Version(), sdk)
}
