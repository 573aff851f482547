package launcher

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/hermes-host/hermes-host/internal/pluginrpc"
)

// passed are the variables of the host's environment that plugins get, and
// with them the servers that they start. Everything else may hold a secret that
// is none of their business.
var passed = map[string]bool{
	"PATH": true, "HOME": true, "USER": true, "LOGNAME": true, "SHELL": true, "TERM": true,
	"LANG": true, "LANGUAGE": true, "TZ": true, "TMPDIR": true,
	"HTTP_PROXY": true, "HTTPS_PROXY": true, "NO_PROXY": true, "ALL_PROXY": true,
	"http_proxy": true, "https_proxy": true, "no_proxy": true, "all_proxy": true,
	"SSL_CERT_FILE": true, "SSL_CERT_DIR": true, "NODE_EXTRA_CA_CERTS": true,
}

// passedPrefixes begin the names of further ones.
var passedPrefixes = []string{"LC_", "XDG_"}

// passedWindows are those without which programs on Windows do not start or do
// not find the user's files; upper case, since names have no case there.
var passedWindows = map[string]bool{
	"SYSTEMROOT": true, "SYSTEMDRIVE": true, "WINDIR": true, "COMSPEC": true, "PATHEXT": true, "PATH": true,
	"TEMP": true, "TMP": true, "USERPROFILE": true, "USERNAME": true, "USERDOMAIN": true, "HOMEDRIVE": true, "HOMEPATH": true,
	"APPDATA": true, "LOCALAPPDATA": true, "PROGRAMDATA": true, "PROGRAMFILES": true, "PROGRAMFILES(X86)": true,
	"COMMONPROGRAMFILES": true, "NUMBER_OF_PROCESSORS": true, "PROCESSOR_ARCHITECTURE": true, "OS": true,
}

// environ returns a plugin's environment: what is passed of the host's, then
// what the plugin's block names, then what the launcher and go-plugin tell it.
// Of variables of the same name the last counts.
func environ(host []string, windows bool, command Command, level hclog.Level, own []string) []string {
	var env []string
	for _, kv := range host {
		name, _, ok := strings.Cut(kv, "=")
		if !ok {
			continue
		}
		begins := func(p string) bool { return strings.HasPrefix(name, p) }
		if passed[name] || windows && passedWindows[strings.ToUpper(name)] || slices.ContainsFunc(passedPrefixes, begins) {
			env = append(env, kv)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(command.Env)) {
		env = append(env, name+"="+command.Env[name])
	}
	env = append(env, pluginrpc.EnvLifeline+"="+pluginrpc.LifelineStdin)
	if level != hclog.NoLevel {
		env = append(env, pluginrpc.EnvLogLevel+"="+strings.ToLower(level.String()))
	}
	return append(env, own...)
}
