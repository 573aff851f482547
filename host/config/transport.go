package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// Plugins answers for the transport plugins; the host implements it with its
// launcher. Both methods may be called concurrently and are bounded by ctx.
type Plugins interface {
	// Schema returns the attributes of the kind's transport block. It returns
	// an *UnknownKindError if no plugin serves the kind; other errors say why
	// the plugin did not answer.
	Schema(ctx context.Context, kind string) ([]*transportpb.Attribute, error)

	// Validate lets the kind's plugin check a block that conforms to its
	// schema.
	Validate(ctx context.Context, kind string, config []byte) ([]*transportpb.Diagnostic, error)
}

// UnknownKindError says that no plugin serves a kind of transport.
type UnknownKindError struct {
	Kind  string
	Known []string // the kinds that there are plugins for
}

// Error names the kinds that there are.
func (e *UnknownKindError) Error() string {
	return fmt.Sprintf("there is no transport plugin %q (there are: %s)", e.Kind, strings.Join(slices.Sorted(slices.Values(e.Known)), ", "))
}

// origin is where a server was written.
type origin struct {
	block, transport *hcl.Block
	attrs            hcl.Attributes // of the transport, once it was resolved
	scope            *scope
}

// locate returns the range of a value in the transport block.
func (o *origin) locate(path []any) hcl.Range {
	if len(path) > 0 {
		name, _ := path[0].(string)
		if a, ok := o.attrs[name]; ok {
			if len(path) == 1 {
				return a.Range
			}
			f := pathfinder{ctx: o.scope.ctx, locals: o.scope.locals}
			if e := f.walk(a.Expr, path[1:]); e != a.Expr {
				return e.Range()
			}
			return a.Range
		}
	}
	return o.transport.DefRange
}

// Resolve evaluates the transport blocks of all enabled servers and lets the
// plugins check them, those of different servers concurrently. Nothing is
// connected to.
//
// The Config is nil only if Diagnostics.Fatal reports true: a server whose plugin
// does not work is part of it, with a Fault. Transport blocks of disabled
// servers are not looked at, so that what they need may be missing.
//
// Of a File that has mistakes outside its transport blocks there is no Config.
// Those are reported again then, together with what is wrong in the blocks.
func (f *File) Resolve(ctx context.Context, p Plugins) (*Config, Diagnostics) {
	c := f.config
	c.Servers = slices.Clone(c.Servers)
	c.Plugins = slices.Clone(c.Plugins)
	schemas := &schemas{plugins: p, known: map[string]*schema{}}
	found := make([]hcl.Diagnostics, len(c.Servers))
	const parallel = 16
	slots := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	for i := range c.Servers {
		s := &c.Servers[i]
		if !s.Enabled || s.unsure || s.origin == nil || f.unsound[s.Transport.Kind] {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			found[i] = f.resolve(ctx, s, p, schemas)
		})
	}
	wg.Wait()
	out := Diagnostics{list: sorted(append(slices.Concat(found...), f.mistakes...)), src: f.scope.src}
	if out.Fatal() {
		return nil, out
	}
	return &c, out
}

// ResolveServer resolves one server again, enabled or not: for one with a
// Fault, once its plugin may work.
func (f *File) ResolveServer(ctx context.Context, p Plugins, name string) (Server, Diagnostics) {
	i := slices.IndexFunc(f.config.Servers, func(s Server) bool { return s.Name == name })
	if i < 0 {
		return Server{}, problem("No such server", "%s has no server %q.", f.scope.src.name, name)
	}
	s := f.config.Servers[i]
	diags := f.resolve(ctx, &s, p, &schemas{plugins: p, known: map[string]*schema{}})
	return s, Diagnostics{list: sorted(diags), src: f.scope.src}
}

// resolve fills in a server's transport.
func (f *File) resolve(ctx context.Context, s *Server, p Plugins, known *schemas) hcl.Diagnostics {
	o := *s.origin
	s.origin = &o
	kind, label := s.Transport.Kind, o.transport.LabelRanges[0]
	d := f.scope.decoder()
	sc := known.get(ctx, kind)
	if unknown, ok := errors.AsType[*UnknownKindError](sc.err); ok {
		d.fail(label, "Unknown transport", "%s", unknownKind(unknown, s.Name))
		return d.diags
	}
	if sc.err != nil {
		s.Fault = d.fault(label, kind, sc.err)
		return d.diags
	}
	values := d.transport(&o, sc)
	if d.diags.HasErrors() {
		return d.diags
	}
	var err error
	if s.Transport, err = encode(kind, values, sc, f.scope.src.secrets); err != nil {
		s.Fault = d.fault(label, kind, err)
		return d.diags
	}
	checked, err := p.Validate(ctx, kind, s.Transport.Config)
	if err != nil {
		s.Transport = Transport{Kind: kind}
		s.Fault = d.fault(label, kind, err)
		return d.diags
	}
	for _, g := range checked {
		d.pluginSays(&o, sc, g)
	}
	return unsurpassed(d.diags)
}

// unsurpassed leaves out warnings about a place that an error is about: they
// say the same in other words.
func unsurpassed(diags hcl.Diagnostics) hcl.Diagnostics {
	wrong := map[hcl.Range]bool{}
	for _, g := range diags {
		if g.Severity == hcl.DiagError && g.Subject != nil {
			wrong[*g.Subject] = true
		}
	}
	return slices.DeleteFunc(diags, func(g *hcl.Diagnostic) bool {
		return g.Severity == hcl.DiagWarning && g.Subject != nil && wrong[*g.Subject]
	})
}

// fault reports that a plugin does not work.
func (d *decoder) fault(at hcl.Range, kind string, err error) error {
	text := d.src.secrets.redact(err.Error())
	d.add(&hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: "Transport plugin does not work",
		Detail:  fmt.Sprintf("The plugin for transport %q cannot be used: %s.", kind, strings.TrimSuffix(text, ".")),
		Subject: at.Ptr(), Extra: faultOfPlugin{},
	})
	return fmt.Errorf("the plugin for transport %q cannot be used: %s", kind, text)
}

// unknownKind says what to do about a kind that no plugin serves.
func unknownKind(e *UnknownKindError, server string) string {
	kinds := slices.Sorted(slices.Values(e.Known))
	list := "There are no transport plugins at all: those of the house belong beside the host's program."
	if len(kinds) > 0 {
		list = fmt.Sprintf("There are: %s.", strings.Join(kinds, ", "))
	}
	return fmt.Sprintf("The server %q uses the transport %q, which no plugin provides.%s %s For a transport of a third party add a block plugin %q { command = \"…\" }.",
		server, e.Kind, didYouMean(e.Kind, kinds), list, e.Kind)
}

// pluginSays reports what the plugin says about the block, at the user's line.
func (d *decoder) pluginSays(o *origin, sc *schema, g *transportpb.Diagnostic) {
	path := fromProto(g.GetPath())
	if len(path) > 0 {
		name, _ := path[0].(string)
		if at, ok := o.attrs[name]; ok && slices.ContainsFunc(sc.attrs, func(a attribute) bool { return a.name == name && a.sensitive }) {
			f := pathfinder{ctx: d.ctx, locals: o.scope.locals}
			d.src.hide(f.walk(at.Expr, path[1:]))
		}
	}
	at := o.locate(path)
	out := &hcl.Diagnostic{
		Severity: hcl.DiagError, Subject: &at,
		Summary: g.GetSummary(), Detail: g.GetDetail(),
	}
	if g.GetSeverity() == transportpb.Diagnostic_SEVERITY_WARNING {
		out.Severity = hcl.DiagWarning
	}
	if out.Summary == "" {
		out.Summary = "Refused by the transport plugin"
	}
	d.add(out)
}

// encode turns the values into what the plugin gets and what people see.
func encode(kind string, values map[string]cty.Value, sc *schema, s *secrets) (Transport, error) {
	t := Transport{Kind: kind, Sensitive: []string{}}
	bare, display := map[string]cty.Value{}, map[string]any{}
	for _, a := range sc.attrs {
		v := values[a.name]
		plain, marks := v.UnmarkDeep()
		bare[a.name] = plain
		if a.sensitive && !plain.IsNull() {
			v = v.Mark(secret)
		}
		if (len(marks) > 0 || a.sensitive) && !plain.IsNull() {
			t.Sensitive = append(t.Sensitive, a.name)
		}
		if a.sensitive {
			s.rememberLiterals(plain)
		}
		display[a.name] = visible(v, false)
	}
	slices.Sort(t.Sensitive)
	object := cty.ObjectVal(bare)
	var err error
	if t.Config, err = ctyjson.Marshal(object, object.Type()); err != nil {
		return Transport{Kind: kind}, fmt.Errorf("the block cannot be written as JSON: %w", err)
	}
	if t.Display, err = json.Marshal(display); err != nil {
		return Transport{Kind: kind}, fmt.Errorf("the block cannot be written as JSON: %w", err)
	}
	return t, nil
}
