package httpconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/hermes-host/hermes-host/shared"
)

// errNoCertificates says that a PEM file holds no certificate.
var errNoCertificates = errors.New("no certificate in PEM format in the file")

// tls returns the configuration of TLS connections. The error is a
// [*shared.EndError] that names the attribute whose file can't be used.
func (s Settings) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CAFile != "" {
		pool, err := loadCA(s.CAFile)
		if err != nil {
			return nil, shared.ConfigError(fmt.Sprintf("reading ca_file: %v", err), shared.Attr("ca_file"))
		}
		config.RootCAs = pool
	}
	if s.ClientCertFile != "" {
		if _, err := tls.LoadX509KeyPair(s.ClientCertFile, s.ClientKeyFile); err != nil {
			return nil, shared.ConfigError(fmt.Sprintf("reading client_cert_file and client_key_file: %v", err), shared.Attr("client_cert_file"))
		}
		// A host lives for months, a short-lived certificate for a day.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(s.ClientCertFile, s.ClientKeyFile)
			if err != nil {
				return nil, fmt.Errorf("reading client_cert_file and client_key_file: %w", err)
			}
			return &pair, nil
		}
	}
	return config, nil
}

// loadCA returns the system's authorities and those of a file.
func loadCA(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, errNoCertificates
	}
	return pool, nil
}
