package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
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
		if !c.Servers[i].Enabled {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			found[i] = f.resolve(ctx, &c.Servers[i], p, schemas)
		})
	}
	wg.Wait()
	out := Diagnostics{list: sorted(slices.Concat(found...)), src: f.scope.src}
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

// schemas asks for each kind's schema once.
type schemas struct {
	plugins Plugins
	mu      sync.Mutex
	known   map[string]*schema
}

func (s *schemas) get(ctx context.Context, kind string) *schema {
	s.mu.Lock()
	sc, ok := s.known[kind]
	if !ok {
		sc = &schema{done: make(chan struct{})}
		s.known[kind] = sc
	}
	s.mu.Unlock()
	if !ok {
		sc.fill(ctx, s.plugins, kind)
		close(sc.done)
	}
	<-sc.done // bounded: fill ends with ctx
	return sc
}

// A schema is what a plugin says about its block, in our terms.
type schema struct {
	done  chan struct{}
	attrs []attribute
	err   error
}

type attribute struct {
	name, doc           string
	ty                  cty.Type // may have optional attributes
	required, sensitive bool
	fallback            cty.Value // of type ty.WithoutOptionalAttributesDeep()
}

func (s *schema) fill(ctx context.Context, p Plugins, kind string) {
	described, err := p.Schema(ctx, kind)
	if err != nil {
		s.err = err
		return
	}
	for _, a := range described {
		ty, err := ctyjson.UnmarshalType(a.GetType())
		if err != nil {
			s.err = fmt.Errorf("it describes %q with a type that is none: %w", a.GetName(), err)
			return
		}
		plain := ty.WithoutOptionalAttributesDeep()
		fallback := cty.NullVal(plain)
		if len(a.GetDefault()) > 0 {
			if fallback, err = ctyjson.Unmarshal(a.GetDefault(), plain); err != nil {
				s.err = fmt.Errorf("it describes %q with a default that is not of its type: %w", a.GetName(), err)
				return
			}
		}
		s.attrs = append(s.attrs, attribute{
			name: a.GetName(), doc: a.GetDoc(), ty: ty,
			required: a.GetRequired(), sensitive: a.GetSensitive(), fallback: fallback,
		})
	}
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
	return d.diags
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

// transport evaluates the attributes of a transport block, and applies
// defaults. Marks stay on the values.
func (d *decoder) transport(o *origin, sc *schema) map[string]cty.Value {
	body := &hcl.BodySchema{}
	for _, a := range sc.attrs {
		body.Attributes = append(body.Attributes, hcl.AttributeSchema{Name: a.name})
	}
	content, diags := o.transport.Body.Content(body)
	o.attrs = content.Attributes
	for _, a := range sc.attrs {
		if at, ok := o.attrs[a.name]; ok && a.sensitive {
			d.src.hide(at.Expr)
		}
	}
	d.hcl(diags)
	values := map[string]cty.Value{}
	for _, a := range sc.attrs {
		at, ok := o.attrs[a.name]
		if !ok {
			if a.required {
				d.fail(o.transport.DefRange, "Missing argument", "The transport %q needs %q.%s", o.transport.Labels[0], a.name, sentence(a.doc))
			}
			values[a.name] = a.fallback
			continue
		}
		values[a.name] = d.pluginValue(at, a)
	}
	return values
}

// sentence returns a doc text for use after a sentence.
func sentence(doc string) string {
	if doc = strings.TrimSpace(doc); doc == "" {
		return ""
	}
	return " " + doc
}

// literalReference is a reference that nobody replaced, in the middle of a
// text.
var literalReference = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)

// pluginValue evaluates one attribute of a transport block.
func (d *decoder) pluginValue(at *hcl.Attribute, a attribute) cty.Value {
	v, ok := d.value(at.Expr)
	if !ok {
		return cty.DynamicVal
	}
	if bare, _ := v.Unmark(); bare.IsNull() {
		if a.required {
			d.fail(at.Expr.Range(), "Missing argument", "%q cannot be null.%s", at.Name, sentence(a.doc))
		}
		return a.fallback
	}
	d.extraneous(at, v, a.ty)
	conv, err := convert.Convert(v, a.ty)
	if err != nil {
		d.mistyped(at.Name, at.Expr, v, a.ty)
		return cty.DynamicVal
	}
	conv = d.withoutNulls(at, conv)
	d.unreplaced(at, a, conv)
	return conv
}

// extraneous reports attributes of objects that the type does not have;
// conversion would drop them silently.
func (d *decoder) extraneous(at *hcl.Attribute, v cty.Value, want cty.Type) {
	bare, _ := v.UnmarkDeep()
	var check func(v cty.Value, want cty.Type, path []any)
	check = func(v cty.Value, want cty.Type, path []any) {
		if v.IsNull() || !v.IsKnown() {
			return
		}
		ty := v.Type()
		each := func(elem func(i int, key cty.Value) (cty.Type, bool)) {
			i := 0
			for it := v.ElementIterator(); it.Next(); i++ {
				k, e := it.Element()
				if t, ok := elem(i, k); ok {
					var step any = i
					if k.Type() == cty.String && !ty.IsSetType() {
						step = k.AsString()
					}
					check(e, t, append(slices.Clone(path), step))
				}
			}
		}
		switch {
		case want.IsObjectType() && (ty.IsObjectType() || ty.IsMapType()):
			names := slices.Sorted(maps.Keys(want.AttributeTypes()))
			each(func(_ int, k cty.Value) (cty.Type, bool) {
				name := k.AsString()
				if want.HasAttribute(name) {
					return want.AttributeType(name), true
				}
				d.fail(walk(at.Expr, append(slices.Clone(path), name), d.ctx).Range(), "Unsupported argument",
					"%q has no attribute %q here.%s", at.Name, name, didYouMean(name, names))
				return cty.Type{}, false
			})
		case want.IsCollectionType() && v.CanIterateElements():
			each(func(int, cty.Value) (cty.Type, bool) { return want.ElementType(), true })
		case want.IsTupleType() && v.CanIterateElements():
			elems := want.TupleElementTypes()
			each(func(i int, _ cty.Value) (cty.Type, bool) {
				if i < len(elems) {
					return elems[i], true
				}
				return cty.Type{}, false
			})
		}
	}
	check(bare, want, nil)
}

// withoutNulls leaves out the entries of maps that are null, so that a
// conditional can leave one out, and reports null elements of lists.
func (d *decoder) withoutNulls(at *hcl.Attribute, v cty.Value) cty.Value {
	out, err := cty.TransformWithTransformer(v, nullDropper{d, at})
	if err != nil {
		return cty.DynamicVal // reported
	}
	return out
}

type nullDropper struct {
	d  *decoder
	at *hcl.Attribute
}

// Enter implements cty.Transformer.
func (n nullDropper) Enter(_ cty.Path, v cty.Value) (cty.Value, error) {
	bare, marks := v.Unmark()
	if !bare.Type().IsMapType() || bare.IsNull() || bare.LengthInt() == 0 {
		return v, nil
	}
	kept := map[string]cty.Value{}
	for it := bare.ElementIterator(); it.Next(); {
		k, e := it.Element()
		if plain, _ := e.Unmark(); !plain.IsNull() {
			kept[k.AsString()] = e
		}
	}
	if len(kept) == 0 {
		return cty.MapValEmpty(bare.Type().ElementType()).WithMarks(marks), nil
	}
	return cty.MapVal(kept).WithMarks(marks), nil
}

// Exit implements cty.Transformer.
func (n nullDropper) Exit(path cty.Path, v cty.Value) (cty.Value, error) {
	bare, _ := v.Unmark()
	if ty := bare.Type(); (ty.IsListType() || ty.IsSetType()) && !bare.IsNull() {
		for i, e := range elements(bare) {
			if plain, _ := e.Unmark(); plain.IsNull() {
				n.d.fail(walk(n.at.Expr, append(fromCty(path), i), n.d.ctx).Range(), "Invalid value", "An element of %q is null; leave it out.", n.at.Name)
			}
		}
	}
	return v, nil
}

// unreplaced reports secret texts that still contain a shell's reference: it
// would be sent as it is, as a token that is none.
func (d *decoder) unreplaced(at *hcl.Attribute, a attribute, v cty.Value) {
	bare, marks := v.UnmarkDeepWithPaths()
	_ = cty.Walk(bare, func(path cty.Path, v cty.Value) (bool, error) {
		if v.Type() != cty.String || v.IsNull() || !v.IsKnown() || !literalReference.MatchString(v.AsString()) {
			return true, nil
		}
		marked := slices.ContainsFunc(marks, func(m cty.PathValueMarks) bool { return path.HasPrefix(m.Path) })
		if !marked && !a.sensitive {
			return true, nil
		}
		g := &hcl.Diagnostic{
			Severity: hcl.DiagWarning, Summary: "Reference not replaced",
			Detail:  "This text contains a reference like ${NAME}, which nothing will replace: $${ writes the characters themselves. For the environment variable write ${env(\"NAME\")}.",
			Subject: walk(at.Expr, fromCty(path), d.ctx).Range().Ptr(),
		}
		if marked {
			g.Severity = hcl.DiagError
			g.Detail = "This value contains a reference like ${NAME}, which nothing will replace. It came so from the environment, a file or a variable: put the value itself there."
		}
		d.add(g)
		return true, nil
	})
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
