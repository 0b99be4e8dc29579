package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"time"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// tls shakes hands without believing anything, so that a certificate that should
// not be believed is measured too, and verifies afterwards as a client does.
func (p *Prober) tls(ctx context.Context, s *spec.TLS) event.Reading {
	config, err := trust{ca: s.CA}.config()
	if err != nil {
		return failed(err)
	}
	name := s.ServerName
	if name == "" {
		if name, _, err = net.SplitHostPort(s.Address); err != nil {
			return failed(fmt.Errorf("address: %w; write host:port", err))
		}
	}
	roots := config.RootCAs
	config.ServerName, config.InsecureSkipVerify = name, true
	config.MinVersion = tls.VersionTLS10 // old servers have certificates too
	conn, err := p.dial(ctx, s.Address)
	if err != nil {
		return refused(err)
	}
	defer conn.Close()
	begin := time.Now()
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return refused(unreachable(ctx, s.Address, fmt.Errorf("no TLS: %w", err)))
	}
	took := time.Since(begin)

	state := secure.ConnectionState()
	served := state.PeerCertificates
	now := p.o.Now()
	others := x509.NewCertPool()
	for _, c := range served[1:] {
		others.AddCert(c)
	}
	chains, verr := served[0].Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: others, CurrentTime: now})
	first := firstToExpire(served)
	if verr == nil {
		// A client takes the chain that lasts longest, whatever else is served.
		for i, chain := range chains {
			if c := firstToExpire(chain); i == 0 || c.NotAfter.After(first.NotAfter) {
				first = c
			}
		}
	}
	days := first.NotAfter.Sub(now).Hours() / 24
	r := event.Reading{Value: days, Took: took}
	if s.Measure == "time" {
		r.Value = took.Seconds()
	}
	r.Text = fmt.Sprintf("%s: %s expires %s, %s in %s", tls.VersionName(state.Version),
		certificateName(first), first.NotAfter.UTC().Format("2006-01-02 15:04 MST"), inDays(days), short(took))
	if verr != nil {
		r.Level = level(event.Critical)
		r.Text = "not to be trusted: " + verr.Error() + "; " + r.Text
	}
	return r
}

func firstToExpire(chain []*x509.Certificate) *x509.Certificate {
	first := chain[0]
	for _, c := range chain[1:] {
		if c.NotAfter.Before(first.NotAfter) {
			first = c
		}
	}
	return first
}

func certificateName(c *x509.Certificate) string {
	switch {
	case len(c.DNSNames) > 0:
		return c.DNSNames[0]
	case c.Subject.CommonName != "":
		return c.Subject.CommonName
	case len(c.Subject.Organization) > 0:
		return c.Subject.Organization[0]
	}
	return "the certificate"
}

func inDays(days float64) string {
	if days < 0 {
		return fmt.Sprintf("%.1f days ago; handshake", -days)
	}
	return fmt.Sprintf("in %.1f days; handshake", days)
}
