package main

import (
	"time"

	"github.com/hermes-host/hermes-host/internal/httpconn"
	"github.com/hermes-host/hermes-host/shared"
)

// config is the transport block.
type config struct {
	URL            string            `hcl:"url" doc:"The URL of the server's event stream, such as https://example.com/sse."`
	Headers        map[string]string `hcl:"headers,optional" sensitive:"true" doc:"Header fields for every request to the URL's host, such as Authorization. They are never logged, and never sent to another host."`
	CAFile         string            `hcl:"ca_file,optional" doc:"A PEM file of certificate authorities to trust besides the system's."`
	ClientCertFile string            `hcl:"client_cert_file,optional" doc:"A PEM file with the client's certificate. It is read anew for each connection, so it may be rotated."`
	ClientKeyFile  string            `hcl:"client_key_file,optional" doc:"A PEM file with the private key of client_cert_file."`
	ConnectTimeout time.Duration     `hcl:"connect_timeout,optional" default:"10s" doc:"How long the TCP connection, and then the TLS handshake, may take."`
	KeepAlive      time.Duration     `hcl:"keep_alive,optional" default:"15s" doc:"The time between keep-alive probes on a silent TCP connection."`
}

func (c config) settings() httpconn.Settings {
	return httpconn.Settings{
		URL:            c.URL,
		Headers:        c.Headers,
		CAFile:         c.CAFile,
		ClientCertFile: c.ClientCertFile,
		ClientKeyFile:  c.ClientKeyFile,
		ConnectTimeout: c.ConnectTimeout,
		KeepAlive:      c.KeepAlive,
	}
}

func validate(c config) []shared.Diagnostic { return c.settings().Check() }
