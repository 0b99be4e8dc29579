package mirror

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// protocols that clients and the primary may speak.
var protocols = []string{"h1", "h1-tls", "h2c", "h2-tls"}

// authority signs the certificates of tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

var newAuthority = sync.OnceValue(func() *authority {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	cert, _ := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key}
})

// issue writes a certificate of that name and its key to files.
func (a *authority) issue(t testing.TB, dir, name string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost", name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// caFile writes the authority's certificate.
func (a *authority) caFile(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// backend is a server that speaks one protocol and no other.
type backend struct {
	URL  string
	Addr string
}

func newBackend(t testing.TB, protocol string, h http.Handler) *backend {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{Addr: l.Addr().String()}
	s := &http.Server{Handler: h, Protocols: new(http.Protocols), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	switch protocol {
	case "h1":
		s.Protocols.SetHTTP1(true)
		b.URL = "http://" + b.Addr
	case "h2c":
		s.Protocols.SetUnencryptedHTTP2(true)
		b.URL = "h2c://" + b.Addr
	default:
		cert, key := newAuthority().issue(t, t.TempDir(), "backend")
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		config := &tls.Config{Certificates: []tls.Certificate{pair}}
		if protocol == "h2-tls" {
			s.Protocols.SetHTTP2(true)
			config.NextProtos = []string{"h2"}
		} else {
			s.Protocols.SetHTTP1(true)
			config.NextProtos = []string{"http/1.1"}
		}
		s.TLSConfig = config
		l = tls.NewListener(l, config.Clone()) // net/http adds protocols to its own
		b.URL = "https://" + b.Addr
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-done })
	return b
}

// newClient speaks that protocol to addr, whatever URL is asked for, and adds
// nothing to requests.
func newClient(t testing.TB, protocol, addr string) *http.Client {
	t.Helper()
	tr := &http.Transport{
		DisableCompression: true,
		Protocols:          new(http.Protocols),
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
		TLSClientConfig:       &tls.Config{RootCAs: newAuthority().pool(), ServerName: "localhost"},
		ExpectContinueTimeout: 30 * time.Second,
	}
	switch protocol {
	case "h1", "h1-tls":
		tr.Protocols.SetHTTP1(true)
	case "h2c":
		tr.Protocols.SetUnencryptedHTTP2(true)
	case "h2-tls":
		tr.Protocols.SetHTTP2(true)
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func schemeOf(protocol string) string {
	if protocol == "h1-tls" || protocol == "h2-tls" {
		return "https"
	}
	return "http"
}

// quiet logs to the test, if it fails.
func quiet(t testing.TB) *slog.Logger {
	w := &logBuffer{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", w.String())
		}
	})
	return slog.New(slog.NewTextHandler(w, nil))
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newSession starts a session that clients of that protocol can reach.
func newSession(t testing.TB, protocol, primary string, with func(*Options)) *Session {
	t.Helper()
	o := Default()
	o.Listen = "127.0.0.1:0"
	o.Primary = primary
	o.CA = newAuthority().caFile(t)
	o.Log = quiet(t)
	o.Timeout = 30 * time.Second // lest a busy machine be the cause
	if schemeOf(protocol) == "https" {
		o.TLSCert, o.TLSKey = newAuthority().issue(t, t.TempDir(), "mirror")
	}
	if with != nil {
		with(&o)
	}
	s, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func readAll(t testing.TB, r io.Reader) []byte {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("read: %v after %d bytes", err, len(b))
	}
	return b
}
