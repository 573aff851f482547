package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What the host needs in the long run: many recoveries of one server, and many
// servers that never stay up. Both only with their flags.
//
//	go run ./internal/bench -cycles 1000
//	go run ./internal/bench -flapping 500

const (
	warmUp  = 50               // recoveries before memory is looked at
	samples = 25               // looks at memory, of which fifths are compared
	quiet   = 30 * time.Second // of calls before the servers flap
	storm   = 90 * time.Second // of calls while they do
	pace    = 10 * time.Millisecond
)

// endure runs what the flags ask for.
func (b *bench) endure(ctx context.Context) error {
	if b.cycles > 0 {
		if err := b.recover(ctx); err != nil {
			return fmt.Errorf("recovering %d times: %w", b.cycles, err)
		}
	}
	if b.flapping > 0 {
		if err := b.flap(ctx); err != nil {
			return fmt.Errorf("%d flapping servers: %w", b.flapping, err)
		}
	}
	return nil
}

// begin starts a host at a free address and connects to it, once it lists a
// number of tools.
func (b *bench) begin(ctx context.Context, name, config string, tools int) (*running, way, error) {
	addr, err := freeAddress()
	if err != nil {
		return nil, way{}, err
	}
	path := filepath.Join(b.dir, name+".hcl")
	if err := os.WriteFile(path, fmt.Appendf([]byte(config), "\nlisten \"http\" {\n  address = %q\n}\n", addr), 0o600); err != nil {
		return nil, way{}, err
	}
	host, err := b.startHost(path)
	if err != nil {
		return nil, way{}, err
	}
	session, err := awaitTools(ctx, "http://"+addr+"/mcp", tools)
	if err != nil {
		return nil, way{}, host.stop(err)
	}
	return host, way{session: session, prefix: "bench__"}, nil
}

// awaitTools returns a session with an endpoint, once that lists so many tools.
func awaitTools(ctx context.Context, url string, tools int) (*mcp.ClientSession, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 3*time.Minute, fmt.Errorf("the host did not list %d tools within three minutes", tools))
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
		session, err := connect(context.WithoutCancel(ctx), &mcp.StreamableClientTransport{Endpoint: url})
		if err != nil {
			continue
		}
		listed := 0
		for _, err := range session.Tools(ctx, nil) {
			if err != nil {
				break
			}
			listed++
		}
		if listed >= tools {
			return session, nil
		}
		_ = session.Close()
	}
}

// holding is what a host holds at one moment.
type holding struct {
	resident, private float64 // MiB; private is without the pages of its program
	descriptors       float64
}

func (t tree) holding() holding {
	h := holding{resident: resident(t.root), private: status(t.root, "RssAnon:")}
	if fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", t.root)); err == nil {
		h.descriptors = float64(len(fds))
	}
	return h
}

// recover kills a server and calls it, again and again.
func (b *bench) recover(ctx context.Context) error {
	config := fmt.Sprintf("server \"bench\" {\n  transport \"stdio\" {\n    command = %q\n    args = [\"upstream\"]\n  }\n}\n", b.self)
	host, w, err := b.begin(ctx, "cycles", config, 20)
	if err != nil {
		return err
	}
	defer func() { _ = host.stop(nil) }()
	defer w.session.Close()
	if _, err := w.recovery(ctx, warmUp, w.killServer); err != nil {
		return host.stop(err)
	}
	var took []time.Duration
	var held []holding
	for i := range samples {
		fmt.Fprintf(os.Stderr, "recoveries: %d of %d\n", len(took), b.cycles)
		part, err := w.recovery(ctx, b.cycles*(i+1)/samples-len(took), w.killServer)
		if err != nil {
			return host.stop(err)
		}
		took, held = append(took, part...), append(held, host.tree.holding())
	}
	slices.Sort(took)
	fmt.Printf("\n### %d times kill -9 of one stdio server, and the next call\n\n", b.cycles)
	fmt.Printf("recovery: median %s, p99 %s, worst %s\n\n", ms(took[len(took)/2]), ms(took[len(took)*99/100]), ms(took[len(took)-1]))
	fmt.Printf("| the host's | first fifth | last fifth | change |\n|---|---:|---:|---:|\n")
	first, last := held[:samples/5], held[samples-samples/5:]
	for _, m := range []struct {
		name string
		of   func(holding) float64
	}{
		{"resident memory, MiB", func(h holding) float64 { return h.resident }},
		{"of that its own, MiB", func(h holding) float64 { return h.private }},
		{"descriptors", func(h holding) float64 { return h.descriptors }},
	} {
		a, z := median(first, m.of), median(last, m.of)
		fmt.Printf("| %s | %.1f | %.1f | %+.1f %% |\n", m.name, a, z, 100*(z-a)/a)
	}
	return nil
}

// flap compares a healthy server's calls before and while many others come and
// go, with the settings that they have by default.
func (b *bench) flap(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	base, err := b.startHTTP(ctx, "-flapping")
	if err != nil {
		return err
	}
	var config strings.Builder
	fmt.Fprintf(&config, "server \"bench\" {\n  transport \"stdio\" {\n    command = %q\n    args = [\"upstream\"]\n  }\n}\n", b.self)
	for i := range b.flapping {
		fmt.Fprintf(&config, "server \"flap%d\" {\n  transport \"http\" {\n    url = \"%s/%d\"\n  }\n}\n", i, base, i)
	}
	host, w, err := b.begin(ctx, "flapping", config.String(), 20+b.flapping)
	if err != nil {
		return err
	}
	defer func() { _ = host.stop(nil) }()
	defer w.session.Close()

	fmt.Fprintf(os.Stderr, "%d servers are up; calling for %s\n", b.flapping, quiet)
	before, err := w.paced(ctx, quiet)
	if err != nil {
		return host.stop(err)
	}
	held := host.tree.holding()
	if err := control(ctx, base, "flap", nil); err != nil {
		return host.stop(err)
	}
	fmt.Fprintf(os.Stderr, "they flap; calling for %s\n", storm)
	busy, began := cpuTime(host.tree.root), time.Now()
	during, err := w.paced(ctx, storm)
	if err != nil {
		return host.stop(err)
	}
	cores := (cpuTime(host.tree.root) - busy).Seconds() / time.Since(began).Seconds()
	var seen struct{ Lost, Begun int }
	if err := control(ctx, base, "count", &seen); err != nil {
		return host.stop(err)
	}
	after := host.tree.holding()
	if seen.Lost < b.flapping {
		return host.stop(errors.New("the servers did not flap"))
	}
	fmt.Printf("\n### %d servers that flap, and one that does not\n\n", b.flapping)
	fmt.Printf("| measure | quiet | flapping | ratio |\n|---|---:|---:|---:|\n")
	for _, at := range []int{50, 99} {
		q, f := before[len(before)*at/100], during[len(during)*at/100]
		fmt.Printf("| a healthy server's call, p%d | %s | %s | x%.2f |\n", at, ms(q), ms(f), float64(f)/float64(q))
	}
	fmt.Printf("| resident memory, host, MiB | %.1f | %.1f | x%.2f |\n", held.resident, after.resident, after.resident/held.resident)
	fmt.Printf("| descriptors, host | %.0f | %.0f | x%.2f |\n", held.descriptors, after.descriptors, after.descriptors/held.descriptors)
	fmt.Printf("\nin %s: %d sessions lost, %d begun anew; the host used %.2f cores on average\n", storm, seen.Lost, seen.Begun, cores)
	return nil
}

// paced calls at an even pace and returns how long each call took, sorted.
func (w way) paced(ctx context.Context, d time.Duration) ([]time.Duration, error) {
	end := time.After(d)
	tick := time.NewTicker(pace)
	defer tick.Stop()
	var took []time.Duration
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-end:
			slices.Sort(took)
			return took, nil
		case <-tick.C:
		}
		start := time.Now()
		if _, err := w.call(ctx, "echo", map[string]any{"text": "hello"}); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
	}
}
