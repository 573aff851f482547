package config

import (
	"context"
	"fmt"
	"sync"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// What plugins describe, in the terms of HCL: asked for once per kind, however
// many servers use it.

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
