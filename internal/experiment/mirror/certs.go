package mirror

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificate is the listener's certificate, from two files that are read again when
// they have changed. It is safe for concurrent use.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu     sync.Mutex
	loaded *tls.Certificate
	of     [2]version // of loaded, or of the files that could not be
}

// version identifies the content of a file.
type version struct {
	modified time.Time
	size     int64
}

func fileVersion(name string) version {
	fi, err := os.Stat(name)
	if err != nil {
		return version{}
	}
	return version{fi.ModTime(), fi.Size()}
}

// newCertificate loads the files.
func newCertificate(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	c.of = c.versions()
	loaded, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("tls-cert: load %s and %s: %w: give files of PEM that belong together", certFile, keyFile, err)
	}
	c.loaded = &loaded
	return c, nil
}

func (c *certificate) versions() [2]version {
	return [2]version{fileVersion(c.certFile), fileVersion(c.keyFile)}
}

// get implements tls.Config.GetCertificate. While new files cannot be used, for
// example because one of the two is not written yet, the old ones stay.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.versions()
	if v == c.of {
		return c.loaded, nil
	}
	c.of = v
	loaded, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		c.log.Warn("mirror: the certificate has changed and cannot be used; the old one stays", "cert", c.certFile, "key", c.keyFile, "error", err)
		return c.loaded, nil
	}
	c.loaded = &loaded
	return c.loaded, nil
}

// clientTLS returns the TLS configuration for servers with https.
func clientTLS(o *Options) (*tls.Config, error) {
	c := &tls.Config{InsecureSkipVerify: o.Insecure, MinVersion: tls.VersionTLS12}
	if o.CA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(o.CA)
	if err != nil {
		return nil, fmt.Errorf("ca: %w: give a file of PEM", err)
	}
	if c.RootCAs, err = x509.SystemCertPool(); err != nil {
		c.RootCAs = x509.NewCertPool()
	}
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("ca: %s holds no certificate: give a file of PEM", o.CA)
	}
	return c, nil
}
