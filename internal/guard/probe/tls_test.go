package probe

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tailscope/internal/guard/check/spec"
)

var today = time.Date(2026, 5, 9, 8, 0, 0, 0, time.UTC)

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// issue makes a certificate that lasts so many days from today, signed by another
// or by itself.
func issue(t *testing.T, by *authority, name string, days int, ca bool) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: today.AddDate(-1, 0, 0), NotAfter: today.AddDate(0, 0, days),
		IsCA: ca, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if ca {
		c.KeyUsage |= x509.KeyUsageCertSign
	} else {
		c.DNSNames = []string{name}
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	parent, signer := c, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(raw); err != nil {
		t.Fatal(err)
	}
	return authority{c, key}
}

func TestTLS(t *testing.T) {
	root := issue(t, nil, "Root", 3000, true)
	dying := issue(t, &root, "Dying CA", 12, true)
	lasting := issue(t, &root, "Lasting CA", 900, true)
	crossed := issue(t, nil, "Old Root", -5, true)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.cert.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	leaf := func(by *authority, days int) authority { return issue(t, by, "shop.example", days, false) }
	p := prober(t, Options{Now: func() time.Time { return today }})
	for _, c := range []struct {
		name        string
		leaf        authority
		with        []authority
		server, ca  string
		days        float64
		level, text string
	}{
		{"the leaf expires first", leaf(&lasting, 30), []authority{lasting}, "", ca, 30, "", "shop.example expires 2026-06-08 08:00 UTC, in 30.0 days"},
		{"an authority expires first", leaf(&dying, 30), []authority{dying}, "", ca, 12, "", "Dying CA expires"},
		{"what no client needs may have expired", leaf(&lasting, 30), []authority{lasting, crossed}, "", ca, 30, "", "shop.example"},
		{"expired", leaf(&lasting, -3), []authority{lasting}, "", ca, -3, "CRITICAL", "not to be trusted: x509: certificate has expired"},
		{"another name", leaf(&lasting, 30), []authority{lasting}, "other.example", ca, 30, "CRITICAL", "not other.example"},
		{"authority unknown", leaf(&lasting, 30), []authority{lasting}, "", "", 30, "CRITICAL", "unknown authority"},
		{"a link is missing", leaf(&lasting, 30), nil, "", ca, 30, "CRITICAL", "unknown authority"},
		{"by itself", leaf(nil, 30), nil, "", ca, 30, "CRITICAL", "unknown authority"},
	} {
		chain := tls.Certificate{Certificate: [][]byte{c.leaf.cert.Raw}, PrivateKey: c.leaf.key}
		for _, a := range c.with {
			chain.Certificate = append(chain.Certificate, a.cert.Raw)
		}
		addr := listen(t, func(conn net.Conn) {
			s := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{chain}})
			if s.Handshake() == nil {
				io.Copy(io.Discard, s)
			}
		})
		if c.server == "" {
			c.server = "shop.example"
		}
		r := measure(t, p, spec.Source{TLS: &spec.TLS{Address: addr, ServerName: c.server, CA: c.ca}})
		days := math.Round(r.Value)
		r.Value = days
		want(t, c.name, r, is(c.days), c.level, c.text, "")
		r = measure(t, p, spec.Source{TLS: &spec.TLS{Address: addr, ServerName: c.server, CA: c.ca, Measure: "time"}})
		if r.Null || r.Value <= 0 || r.Value != r.Took.Seconds() {
			t.Errorf("%s: the handshake took %v of %s", c.name, r.Value, r.Took)
		}
	}
	plain := listen(t, func(c net.Conn) { io.WriteString(c, "220 hello\r\n") })
	want(t, "no tls", measure(t, p, spec.Source{TLS: &spec.TLS{Address: plain}}), nil, "CRITICAL", "", "no TLS")
	want(t, "no port", measure(t, p, spec.Source{TLS: &spec.TLS{Address: "shop.example"}}), nil, "", "", "write host:port")
}
