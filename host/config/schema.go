package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// The host's part of the language: which blocks and attributes there are, what
// they must be, and what they are if absent. docs/configuration.md describes
// them; a test compares the two.

// file decodes a whole file into f, and returns the definitions of locals. Sound
// is false if the outermost blocks are not what they should be: much else would
// then be called wrong for want of what they were meant to say.
func (d *decoder) file(body hcl.Body, f *File, opts Options) (locals map[string]*hcl.Attribute, sound bool) {
	c := &f.config
	c.Listen = Listen{
		Address:            "127.0.0.1:7717",
		SessionIdleTimeout: 30 * time.Minute,
		MaxSessions:        10000,
		MaxRequestBytes:    64 << 20,
	}
	c.Log = Log{Level: "info", Format: "auto"}

	var blocks, listens, servers, plugins, logs, endpoints hcl.Blocks
	var vars hcl.Blocks
	into := func(dst *hcl.Blocks) func(*decoder, *hcl.Block) {
		return func(_ *decoder, b *hcl.Block) { *dst = append(*dst, b) }
	}
	d.body(body, nil, []sub{
		{"variable", []string{"name"}, true, into(&vars)},
		{"locals", nil, true, into(&blocks)},
		{"listen", []string{"protocol"}, true, into(&listens)},
		{"log", nil, false, into(&logs)},
		{"server", []string{"name"}, true, into(&servers)},
		{"endpoint", []string{"name"}, true, into(&endpoints)},
		{"plugin", []string{"kind"}, true, into(&plugins)},
	})
	sound = !d.diags.HasErrors()
	// Variables and locals first: everything else may refer to them.
	d.variables(vars, opts)
	locals = d.locals(blocks)
	missing := d.diags.HasErrors()

	for i, b := range listens {
		switch {
		case b.Labels[0] != "http":
			d.fail(b.LabelRanges[0], "Unknown protocol", "The host can listen for \"http\" only: listen \"http\" { }. (For clients that start the host themselves there is the command hermes-host stdio.)")
		case i > 0:
			d.fail(b.DefRange, "Duplicate block", "There can be only one listen block; the first is at %s.", where(listens[0].DefRange))
		default:
			d.listen(b, &c.Listen)
		}
	}
	for _, b := range logs {
		d.body(b.Body, []attr{
			oneOf("level", &c.Log.Level, "trace", "debug", "info", "warn", "error"),
			oneOf("format", &c.Log.Format, "auto", "text", "json"),
		}, nil)
	}
	seen := map[string]hcl.Range{}
	f.unsound = map[string]bool{}
	for _, b := range plugins {
		before := len(d.diags)
		if d.unique(b, "plugin", seen) {
			c.Plugins = append(c.Plugins, d.plugin(b, c.Dir))
		}
		// What refers to a missing value is left out without a word: a checksum
		// could be lost in that way.
		if missing || len(d.diags) > before {
			f.unsound[b.Labels[0]] = true
		}
	}
	c.Plugins = slices.DeleteFunc(c.Plugins, func(p Plugin) bool { return f.unsound[p.Kind] })
	seen = map[string]hcl.Range{}
	for _, b := range servers {
		if d.unique(b, "server", seen) {
			c.Servers = append(c.Servers, d.server(b))
		}
	}
	// Endpoints share /mcp/NAME with servers.
	for _, b := range endpoints {
		if d.unique(b, "server or endpoint", seen) {
			c.Endpoints = append(c.Endpoints, d.endpoint(b, c.Servers))
		}
	}
	return locals, sound
}

// unique reports a block whose label was used before.
func (d *decoder) unique(b *hcl.Block, what string, seen map[string]hcl.Range) bool {
	if first, ok := seen[b.Labels[0]]; ok {
		d.fail(b.LabelRanges[0], "Duplicate "+what, "There is a %s %q already, at %s. Each needs a name of its own.", what, b.Labels[0], where(first))
		return false
	}
	seen[b.Labels[0]] = b.LabelRanges[0]
	return true
}

func (d *decoder) listen(b *hcl.Block, l *Listen) {
	before := len(d.diags)
	d.body(b.Body, []attr{
		{"address", func(d *decoder, a *hcl.Attribute) {
			l.at = a.Expr.Range()
			text("address", &l.Address, checkAddress).set(d, a)
		}},
		secretText("token", &l.Token, func(s string) error {
			if len(s) < minToken || strings.TrimSpace(s) != s {
				return fmt.Errorf("a token has at least %d characters and no spaces around it; openssl rand -hex 32 makes one", minToken)
			}
			return nil
		}),
		texts("allowed_origins", &l.AllowedOrigins, checkOrigin),
		texts("allowed_hosts", &l.AllowedHosts, checkHost),
		duration("session_idle_timeout", &l.SessionIdleTimeout, time.Second),
		count("max_sessions", &l.MaxSessions, 1, 1_000_000),
		size("max_request_bytes", &l.MaxRequestBytes, 1<<10, 1<<30),
	}, nil)
	if len(d.diags) == before && l.Token == "" && !loopback(l.Address) {
		d.fail(l.at, "Address without authentication", "Others than this machine can reach this address, and would be free to call every tool. Set a token in this block that clients must send, such as token = env(\"HERMES_TOKEN\"), or listen on 127.0.0.1.")
	}
}

// minToken is the least length of a token.
const minToken = 16

func (d *decoder) plugin(b *hcl.Block, dir string) Plugin {
	p := Plugin{Kind: b.Labels[0], Args: []string{}, Env: map[string]string{}, at: b.DefRange}
	if !kindForm.MatchString(p.Kind) {
		d.fail(b.LabelRanges[0], "Invalid name", "A transport kind consists of lower-case letters, digits, _ and -, begins with a letter, and has at most 32 characters.")
	}
	given := false
	d.body(b.Body, []attr{
		{"command", func(d *decoder, a *hcl.Attribute) {
			given = true
			text("command", &p.Command, func(s string) error {
				if strings.TrimSpace(s) == "" {
					return fmt.Errorf("it names the plugin's program")
				}
				return nil
			}).set(d, a)
		}},
		texts("args", &p.Args, nil),
		{"sha256", func(d *decoder, a *hcl.Attribute) {
			text("sha256", &p.SHA256, func(s string) error {
				_, err := parseSHA256(s)
				return err
			}).set(d, a)
			p.SHA256, _ = parseSHA256(p.SHA256)
		}},
		{"env", func(d *decoder, a *hcl.Attribute) {
			d.src.hide(a.Expr)
			pairs("env", &p.Env, func(k, _ string) error {
				if k == "" || strings.ContainsAny(k, "=\x00") {
					return fmt.Errorf("the name of an environment variable cannot be empty or contain an equals sign")
				}
				return nil
			}).set(d, a)
		}},
	}, nil)
	if !given {
		d.fail(b.DefRange, "Missing argument", "The plugin block needs \"command\", the plugin's program: a path relative to this file, or a name to be found on PATH.")
	}
	if strings.ContainsAny(p.Command, `/\`) && !filepath.IsAbs(p.Command) {
		p.Command = filepath.Join(dir, p.Command)
	}
	return p
}

// newServer returns a server with the defaults.
func newServer(name string) Server {
	return Server{
		Name:       name,
		Enabled:    true,
		Prefix:     name,
		CallWait:   2 * time.Second,
		MaxMessage: 64 << 20,

		Session:      "shared",
		IdleTimeout:  30 * time.Minute,
		MaxSessions:  64,
		Capabilities: []string{"elicitation.form", "elicitation.url", "sampling"},

		Timeouts: Timeouts{
			Connect: 30 * time.Second,
			Call:    5 * time.Minute,
			List:    30 * time.Second,
			Health:  5 * time.Second,
			Close:   10 * time.Second,
		},
		Retry:  Retry{Base: time.Second, Max: time.Minute, Budget: 5},
		Revive: Revive{Min: time.Minute, Max: 5 * time.Minute},
		CrashLoop: CrashLoop{
			Deaths: 10,
			Window: 5 * time.Minute,
			Proven: 30 * time.Second,
		},
		Breaker: Breaker{Threshold: 3, Cooldown: time.Minute},
	}
}

const inTransport = `%[1]q belongs to the transport: transport "stdio" { %[1]s = … }.`

func (d *decoder) server(b *hcl.Block) Server {
	s := newServer(b.Labels[0])
	if !serverForm.MatchString(s.Name) {
		d.fail(b.LabelRanges[0], "Invalid name", "The name of a server consists of letters, digits, _ and -, begins with a letter or digit, and has at most 40 characters.")
	}
	var transports hcl.Blocks
	isolate := false
	var ofClients, ofAll *hcl.Attribute // settings of one scope only
	attrs := []attr{
		{"enabled", func(d *decoder, a *hcl.Attribute) {
			v, _, ok := d.as(a, cty.Bool)
			switch bare, _ := v.Unmark(); {
			case ok:
				s.Enabled = v.True()
			case !bare.IsKnown() || !bare.IsNull():
				s.unsure = true
			}
		}},
		{"isolate", func(d *decoder, a *hcl.Attribute) {
			if v, _, ok := d.as(a, cty.Bool); ok {
				isolate = v.True()
				s.Isolate = &isolate
			}
		}},
		text("prefix", &s.Prefix, func(p string) error {
			if !prefixForm.MatchString(p) {
				return fmt.Errorf("a prefix consists of letters, digits, _ and -, at most 40; an empty one leaves names as they are")
			}
			return nil
		}),
		duration("call_wait", &s.CallWait, time.Millisecond),
		duration("keep_alive", &s.KeepAlive, 0),
		size("max_message", &s.MaxMessage, 4<<10, 1<<30),
		oneOf("protocol", &s.Protocol, "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"),
		oneOf("session", &s.Session, "shared", "client"),
		first(duration("idle_timeout", &s.IdleTimeout, time.Second), &ofClients),
		first(count("max_sessions", &s.MaxSessions, 1, 100_000), &ofClients),
		first(texts("capabilities", &s.Capabilities, checkCapability), &ofAll),
	}
	for _, name := range []string{"command", "args", "env", "cwd", "url", "headers"} {
		attrs = append(attrs, misplaced(name, fmt.Sprintf(inTransport, name)))
	}
	d.body(b.Body, attrs, []sub{
		{"timeouts", nil, false, func(d *decoder, b *hcl.Block) {
			d.body(b.Body, []attr{
				duration("connect", &s.Timeouts.Connect, time.Millisecond),
				duration("call", &s.Timeouts.Call, time.Millisecond),
				duration("list", &s.Timeouts.List, time.Millisecond),
				duration("health", &s.Timeouts.Health, time.Millisecond),
				duration("close", &s.Timeouts.Close, time.Millisecond),
			}, nil)
		}},
		{"retry", nil, false, func(d *decoder, b *hcl.Block) {
			d.body(b.Body, []attr{
				duration("base", &s.Retry.Base, time.Millisecond),
				duration("max", &s.Retry.Max, time.Millisecond),
				count("budget", &s.Retry.Budget, 1, 1000),
			}, nil)
			d.ordered(b, "base", s.Retry.Base, "max", s.Retry.Max)
		}},
		{"revive", nil, false, func(d *decoder, b *hcl.Block) {
			d.body(b.Body, []attr{
				duration("min", &s.Revive.Min, time.Second),
				duration("max", &s.Revive.Max, time.Second),
			}, nil)
			d.ordered(b, "min", s.Revive.Min, "max", s.Revive.Max)
		}},
		{"crash_loop", nil, false, func(d *decoder, b *hcl.Block) {
			d.body(b.Body, []attr{
				count("deaths", &s.CrashLoop.Deaths, 1, 1000),
				duration("window", &s.CrashLoop.Window, time.Second),
				duration("proven", &s.CrashLoop.Proven, time.Millisecond),
			}, nil)
		}},
		{"breaker", nil, false, func(d *decoder, b *hcl.Block) {
			d.body(b.Body, []attr{
				count("threshold", &s.Breaker.Threshold, 1, maxCount),
				duration("cooldown", &s.Breaker.Cooldown, time.Millisecond),
			}, nil)
		}},
		filter("tools", &s.Tools),
		filter("resources", &s.Resources),
		filter("prompts", &s.Prompts),
		{"transport", []string{"kind"}, true, func(_ *decoder, b *hcl.Block) { transports = append(transports, b) }},
	})
	switch {
	case ofClients != nil && s.Session == "shared":
		d.fail(ofClients.NameRange, "Setting without effect", "%q is about sessions of single clients. The server has one session for all of them unless session = \"client\" is set.", ofClients.Name)
	case ofAll != nil && s.Session == "client":
		d.fail(ofAll.NameRange, "Setting without effect", "%q says what the host declares where clients share a session. With session = \"client\" each client's own capabilities are declared.", ofAll.Name)
	}
	switch {
	case len(transports) == 0:
		d.fail(b.DefRange, "No transport", "The server %q needs a transport block that says how to reach it, such as transport \"stdio\" { command = \"…\" } or transport \"http\" { url = \"…\" }.", s.Name)
	case len(transports) > 1:
		d.fail(transports[1].DefRange, "Duplicate block", "A server has one transport; the first is at %s.", where(transports[0].DefRange))
	default:
		s.Transport.Kind = transports[0].Labels[0]
		s.origin = &origin{block: b, transport: transports[0]}
	}
	return s
}

// ordered reports bounds that are the wrong way round.
func (d *decoder) ordered(b *hcl.Block, low string, lo time.Duration, high string, hi time.Duration) {
	if lo > hi {
		d.fail(b.DefRange, "Invalid value", "%q is %s and %q is %s; the latter must not be less. (What is not written has its default.)", low, lo, high, hi)
	}
}

// filter is a block that chooses and renames entries.
func filter(name string, f *Filter) sub {
	rename := attr{"rename", func(d *decoder, a *hcl.Attribute) {
		back := map[string]string{}
		pairs("rename", &f.Rename, func(from, to string) error {
			if !entryForm.MatchString(to) {
				return fmt.Errorf("a name consists of letters, digits, _, - and dots, at most 64")
			}
			if other, ok := back[to]; ok {
				return fmt.Errorf("%q gets the same name", other)
			}
			back[to] = from
			return nil
		}).set(d, a)
	}}
	if name == "resources" {
		rename = misplaced("rename", "Resources keep their URIs, which servers write into results; they can be allowed and denied, but not renamed.")
	}
	describe := pairs("describe", &f.Describe, func(_, text string) error {
		if strings.TrimSpace(text) == "" {
			return fmt.Errorf("the description is empty; a model chooses tools by it")
		}
		return nil
	})
	if name != "tools" {
		describe = misplaced("describe", "Only tools can be described anew.")
	}
	return choice(name, f, rename, describe)
}

// choice is a block that allows and denies entries, with other attributes.
func choice(name string, f *Filter, more ...attr) sub {
	return sub{name, nil, false, func(d *decoder, b *hcl.Block) {
		d.body(b.Body, append([]attr{
			texts("allow", &f.Allow, checkGlob),
			texts("deny", &f.Deny, checkGlob),
		}, more...), nil)
	}}
}
