package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/hermes-host/hermes-host/host/admin"
	"github.com/hermes-host/hermes-host/host/config"
	"github.com/hermes-host/hermes-host/internal/version"
)

// This file finds the running host that tools and call talk to, and connects.

// endpoint says which running host that is.
type endpoint struct {
	url, token string
	to         operator
}

func (e *endpoint) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&e.url, "url", "", "endpoint of the running host, such as http://127.0.0.1:7717/mcp/<server> (default: /mcp of the host that \"status\" would ask; if none answers, of the address that the configuration listens on)")
	cmd.Flags().StringVar(&e.token, "token", "", "bearer token, where the host asks for one; $HERMES_TOKEN if left out, else that of the configuration")
	e.to.flags(cmd)
}

// connect opens a session. The error is an *exit with exitUnreachable where no
// host answers.
func (e *endpoint) connect(ctx context.Context, opts *mcp.ClientOptions) (*hostSession, error) {
	target, token, err := e.resolve(ctx)
	if err != nil {
		return nil, err
	}
	raw := &rawAnswers{token: token, base: http.DefaultTransport}
	client := mcp.NewClient(&mcp.Implementation{Name: "hermes-host-cli", Version: version.String()}, opts)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint:             target,
		HTTPClient:           &http.Client{Transport: raw},
		MaxRetries:           -1,
		MaxEventSize:         -1,
		DisableStandaloneSSE: true,
	}, nil)
	if err == nil {
		return &hostSession{session, raw}, nil
	}
	refused := raw.refusal()
	op, broken := errors.AsType[*net.OpError](err)
	switch {
	case broken:
		return nil, &exit{exitUnreachable, fmt.Errorf("no host answers at %s; start one with \"hermes-host run\", or name its endpoint with --url: %w", target, cause(op))}
	case refused.status == http.StatusUnauthorized && token == "":
		return nil, fmt.Errorf("the host at %s wants a token: --token or $HERMES_TOKEN", target)
	case refused.status == http.StatusUnauthorized:
		return nil, fmt.Errorf("the host at %s refuses the token: it is wrong", target)
	case refused.message != "":
		return nil, errors.New(plain(refused.message))
	}
	return nil, fmt.Errorf("connecting to %s: %w", target, err)
}

// cause returns what is behind an error of the network, without what was tried:
// the message says that already.
func cause(err *net.OpError) error {
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New(dns.Err)
	}
	return err.Err
}

// resolve returns the URL and the bearer token to use: without --url those of
// the host that an operator's command would ask. Where none answers they are
// those of the configuration, or where a host listens by default if there is
// none.
func (e *endpoint) resolve(ctx context.Context) (target, token string, err error) {
	token = cmp.Or(e.token, os.Getenv("HERMES_TOKEN"))
	if e.url != "" {
		return e.url, token, nil
	}
	info, err := e.running(ctx)
	path, missing := findConfig(e.to.config, true)
	several, _ := errors.AsType[*admin.NoHostError](err)
	switch {
	case several != nil && (len(several.Running) < 2 || missing == nil):
		// The configuration says where one may listen.
	case err != nil:
		return "", "", err
	}
	if info.URL != "" {
		if token == "" {
			// The host may have what this process lacks to evaluate the
			// configuration; then it says that it wants a token.
			if file, diags := config.Load(info.Config, config.Options{Version: version.String()}); !diags.HasErrors() {
				token = file.Listen().Token
			}
		}
		return reachable(info.URL), token, nil
	}
	listen := config.Listen{Address: "127.0.0.1:7717"}
	if missing != nil && e.to.config != "" {
		return "", "", missing
	}
	if missing == nil {
		// Servers do not matter here, so a file is read with what it has.
		file, diags := config.Load(path, config.Options{Version: version.String()})
		if diags.HasErrors() {
			return "", "", fmt.Errorf("no running host was found and no --url is given, and the configuration does not tell where the host listens: %w", diags.Err())
		}
		listen = file.Listen()
	}
	return clientURL(listen.Address), cmp.Or(token, listen.Token), nil
}

// running asks the host that an operator's command would ask who it is. Info
// without a URL means that only its own client reaches it, which is an error if
// it was named. The error is an *exit with exitUnreachable if there is none.
func (e *endpoint) running(ctx context.Context) (admin.Info, error) {
	c, err := e.to.client(ctx)
	var info admin.Info
	if err == nil {
		info, err = c.Info(ctx)
	}
	switch {
	case err != nil:
		return info, &exit{exitUnreachable, err}
	case info.URL == "" && e.to.socket != "":
		return info, fmt.Errorf("the host at %s belongs to one client, and serves no other", e.to.socket)
	}
	return info, nil
}

// clientURL returns the endpoint of a host that listens on address. A host
// that listens everywhere is reached over loopback.
func clientURL(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "http://" + address + "/mcp"
	}
	switch strings.Trim(host, "[]") {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	return (&url.URL{Scheme: "http", Host: net.JoinHostPort(host, port), Path: "/mcp"}).String()
}

// reachable returns the endpoint that a host names as one to connect to.
func reachable(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" {
		return endpoint
	}
	return clientURL(u.Host)
}
