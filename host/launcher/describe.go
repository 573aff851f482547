package launcher

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// A Description is what a plugin says of itself.
type Description struct {
	Kind         string
	Path         string // the executable
	Version      string
	Features     []string
	MultiSession bool // one process may hold the sessions of several servers
	Schema       []*transportpb.Attribute
}

func describe(exe *executable, about *transportpb.DescribeResponse) *Description {
	return &Description{
		Kind:         about.GetKind(),
		Path:         exe.path,
		Version:      about.GetVersion(),
		Features:     about.GetFeatures(),
		MultiSession: about.GetMultiSession(),
		Schema:       about.GetSchema(),
	}
}

// Describe returns what the plugin for kind says of itself. It starts the
// plugin unless its file is the one that was asked before; the process is kept
// for a moment, for the first session that wants it. The error is an
// *session.End.
func (l *Launcher) Describe(ctx context.Context, kind string) (Description, error) {
	if about := l.known(kind); about != nil {
		return *about, nil
	}
	p, release, err := l.borrow(ctx, kind)
	if err != nil {
		return Description{}, err
	}
	defer release()
	return *p.about, nil
}

// Schema returns the attributes of the transport block of kind.
func (l *Launcher) Schema(ctx context.Context, kind string) ([]*transportpb.Attribute, error) {
	about, err := l.Describe(ctx, kind)
	return about.Schema, err
}

// Validate lets the plugin for kind check a configuration, which is a JSON
// object that conforms to the schema. An error means that it could not be
// asked.
func (l *Launcher) Validate(ctx context.Context, kind string, config []byte) ([]*transportpb.Diagnostic, error) {
	p, release, err := l.borrow(ctx, kind)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, l.timing.describe)
	defer cancel()
	resp, err := p.rpc.Validate(ctx, &transportpb.ValidateRequest{Config: config})
	if err == nil {
		return resp.GetDiagnostics(), nil
	}
	if how := p.ending(pipeGrace, tailLines); how != "" {
		return nil, gone("plugin %s ended while it checked a configuration: %s", p.exe.path, how)
	}
	if status.Code(err) == codes.Unimplemented {
		return nil, nil // it has nothing to say beyond its schema
	}
	return nil, gone("plugin %s did not check a configuration: %s", p.exe.path, brief(err))
}
