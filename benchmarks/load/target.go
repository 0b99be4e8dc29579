// Package load measures programs that send load, Tailscope's among them: how
// fast they are, what CPU time a request costs them, and whether what they say
// of a target that freezes is true.
//
// All send to the same nginx, which counts the requests; the kernel counts the
// CPU time of the sender's process. So nobody's own figures are believed.
package load

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tailscope/test/program"
)

// Protocol is the protocol of a target.
type Protocol string

const (
	Plain    Protocol = "HTTP/1.1"
	TLS      Protocol = "HTTP/1.1 over TLS"
	HTTP2    Protocol = "HTTP/2 without TLS"
	HTTP2TLS Protocol = "HTTP/2 over TLS"
)

// Target is an nginx of one process that answers everything with 100 bytes.
type Target struct {
	*program.Nginx
	Protocol Protocol
	URL      string
	status   *http.Client // over a socket of its own
}

// StartTarget runs one; its files are in dir.
func StartTarget(ctx context.Context, dir string, p Protocol) (*Target, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	t := &Target{Protocol: p}
	listen, scheme := "", "http"
	switch p {
	case TLS, HTTP2TLS:
		if err := certificate(dir); err != nil {
			return nil, err
		}
		listen, scheme = " ssl", "https"
		if p == HTTP2TLS {
			listen += " http2"
		}
	case HTTP2:
		listen = " http2"
	}
	socket := filepath.Join(dir, "status")
	conf := fmt.Sprintf(`
ssl_certificate %[1]s/cert.pem;
ssl_certificate_key %[1]s/key.pem;
server {
	listen $ADDR%[2]s backlog=4096;
	location / { return 200 %[3]s; }
}
server {
	listen unix:%[4]s;
	location / { stub_status; }
}`, dir, listen, strings.Repeat("a", 100), socket)
	if scheme == "http" {
		conf = conf[strings.Index(conf, "server {"):]
	}
	if t.Nginx, err = program.StartNginx(ctx, dir, conf); err != nil {
		return nil, err
	}
	t.URL = scheme + "://" + t.Addr + "/"
	t.status = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	return t, nil
}

// Stop ends it.
func (t *Target) Stop() {
	t.status.CloseIdleConnections()
	t.Kill()
}

// Requests returns how many it has answered, those that asked it included.
func (t *Target) Requests(ctx context.Context) (n int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://status/", nil)
	if err != nil {
		return 0, err
	}
	resp, err := t.status.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	var accepted, handled int64
	_, line, _ := strings.Cut(string(b), "requests")
	if _, err := fmt.Sscan(line, &accepted, &handled, &n); err != nil {
		return 0, fmt.Errorf("status of nginx %q: %w", b, err)
	}
	return n, nil
}

// certificate leaves a key and a certificate for 127.0.0.1 in dir.
func certificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "target"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(240 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	for name, b := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(b), 0o600); err != nil {
			return err
		}
	}
	return nil
}
