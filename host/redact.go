package host

import "github.com/hashicorp/go-hclog"

// redact returns a text about a server without the secrets of its
// configuration.
func (h *Host) redact(server, text string) string {
	if m := h.memberOf(server); m != nil {
		return m.cfg.Redact(text)
	}
	return text
}

// discreet keeps the secrets of the configuration out of what a supervisor
// logs. Reasons and errors come from servers and plugins, which repeat what
// they were given: a process that dies may well print its token.
type discreet struct {
	hclog.Logger
	redact func(string) string
}

func (r discreet) Log(level hclog.Level, msg string, args ...any) {
	r.Logger.Log(level, r.redact(msg), r.clean(args)...)
}

func (r discreet) Trace(msg string, args ...any) { r.Log(hclog.Trace, msg, args...) }
func (r discreet) Debug(msg string, args ...any) { r.Log(hclog.Debug, msg, args...) }
func (r discreet) Info(msg string, args ...any)  { r.Log(hclog.Info, msg, args...) }
func (r discreet) Warn(msg string, args ...any)  { r.Log(hclog.Warn, msg, args...) }
func (r discreet) Error(msg string, args ...any) { r.Log(hclog.Error, msg, args...) }

func (r discreet) With(args ...any) hclog.Logger {
	return discreet{r.Logger.With(r.clean(args)...), r.redact}
}

func (r discreet) Named(name string) hclog.Logger {
	return discreet{r.Logger.Named(name), r.redact}
}

// clean returns args with the secrets in texts and errors replaced.
func (r discreet) clean(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case string:
			arg = r.redact(v)
		case error:
			arg = r.redact(v.Error())
		}
		out[i] = arg
	}
	return out
}
