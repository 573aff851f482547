package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/hermes-host/hermes-host/host/session"
	"github.com/hermes-host/hermes-host/internal/pluginrpc"
)

// launchError says why a plugin could not be started. It is called when the
// process is gone. What counts is what the process did, never the text of
// go-plugin's error:
//
//	it could not be executed, or has the wrong checksum  the error of Start
//	it printed something else than a handshake           no plugin: configuration
//	it ended with status 0 and said nothing              no plugin: configuration
//	it ended otherwise                                   worth trying again
//	its handshake is of another version                  configuration
//	it has no Describe                                   configuration
//	it was too slow                                      worth trying again
func (p *process) launchError(ctx context.Context, err error) *session.End {
	if end, ok := errors.AsType[*session.End](err); ok {
		return end
	}
	if p.launcher.ctx.Err() != nil {
		return errClosing
	}
	path, state := p.exe.path, p.run.exit
	if state == nil {
		return gone("plugin %s was not started: %v", path, err)
	}
	words := p.lastWords(tailLines)
	line := p.run.stdout.line()
	fields := strings.Split(line, "|")
	shaken := len(fields) >= 4
	took := time.Since(p.began)

	switch {
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), errSlow):
		return gone("plugin %s was stopped while it started: %v", path, context.Cause(ctx))
	case line != "" && !shaken:
		return fault("%s is not a hermes transport plugin: it began with %q instead of a plugin's handshake%s", path, printable(line), words)
	case state.Success() && !shaken:
		return fault("%s is not a hermes transport plugin: it ended without a plugin's handshake%s", path, words)
	case errors.Is(err, errDied) || !killed(state) || !shaken && took < p.launcher.timing.handshake:
		return gone("plugin %s ended while it started: %s%s", path, state, words)
	case !shaken:
		return gone("plugin %s did not begin with a handshake within %v; is it a hermes transport plugin?%s", path, p.launcher.timing.handshake, words)
	case !ourVersion(fields):
		return fault("plugin %s speaks another version of the plugin contract than this host: its handshake has version %s, this host's is %d over gRPC; "+
			"use a host and plugins that belong together", path, fields[1], pluginrpc.Version)
	case status.Code(err) == codes.Unimplemented:
		return fault("%s is not a hermes transport plugin but one of something else: %s", path, status.Convert(err).Message())
	}
	return gone("plugin %s does not answer: %s%s", path, brief(err), words)
}

// ourVersion reads go-plugin's handshake: core version, version of the
// contract, network, address, protocol.
func ourVersion(fields []string) bool {
	return fields[0] == strconv.Itoa(plugin.CoreProtocolVersion) && fields[1] == strconv.Itoa(pluginrpc.Version) &&
		len(fields) >= 5 && fields[4] == string(plugin.ProtocolGRPC)
}

// killed reports whether a process ended by SIGKILL, as the launcher ends
// those that are of no use.
func killed(state *os.ProcessState) bool {
	ws, ok := state.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL
}

// brief is an error without the wrapping of gRPC.
func brief(err error) string {
	if s, ok := status.FromError(err); ok && s.Code() != codes.OK {
		return fmt.Sprintf("%s (%s)", s.Message(), strings.ToLower(s.Code().String()))
	}
	return err.Error()
}
