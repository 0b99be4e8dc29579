// Package probe measures what lies outside of the store: an HTTP request, a TCP
// or TLS connection, a command, a row of a database.
//
// A probe is one question and one answer, as a stranger would see them: it opens
// a connection of its own, so that the time it measures is whole, and it ends at its
// deadline, with everything that it started. Only databases are different: their
// connections are kept for a while, because opening one is dearer than asking.
//
// What could not be measured is a Reading without a value that says why and what
// to do next. It has a level, CRITICAL, where the failure is what the probe was
// looking for: a server that does not answer, a certificate that nobody should
// trust. Where the mistake is ours, such as a secret that cannot be read, it has
// none. No word of a Reading holds a secret.
package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"sync"
	"time"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// Options of a Prober. The zero value works.
type Options struct {
	Now func() time.Time // default time.Now
	// Location is the zone of dates in SQL; default UTC.
	Location *time.Location
	// Timeout ends probes whose context has no deadline; default 10 s.
	Timeout time.Duration
	// Idle bounds the time that an unused connection to a database is kept; default 5 min.
	Idle time.Duration
}

func (o *Options) ensureDefaults() {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Location == nil {
		o.Location = time.UTC
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Idle <= 0 {
		o.Idle = 5 * time.Minute
	}
}

// Prober is a check.Prober. It is safe for concurrent use.
type Prober struct {
	o      Options
	dialer net.Dialer

	mu     sync.Mutex
	trusts map[trust]*trusted
	pools  map[source]*pool
	closed bool
}

// New returns a Prober, to be closed.
func New(o Options) *Prober {
	o.ensureDefaults()
	return &Prober{o: o, dialer: net.Dialer{KeepAlive: -1}, trusts: map[trust]*trusted{}, pools: map[source]*pool{}}
}

// Close closes the connections that were kept. Probes after it fail; those that
// run end by their own deadlines.
func (p *Prober) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var err error
	for at, pool := range p.pools {
		delete(p.pools, at)
		if e := pool.db.Close(); e != nil {
			err = fmt.Errorf("close connections to %s: %w", at.driver, e)
		}
	}
	for at, t := range p.trusts {
		delete(p.trusts, at)
		t.transport.CloseIdleConnections()
	}
	return err
}

// Probe measures s. It ends at ctx's deadline, or after Options.Timeout if it
// has none.
func (p *Prober) Probe(ctx context.Context, s *spec.Source) (r event.Reading) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.o.Timeout)
		defer cancel()
	}
	begin := time.Now()
	var hide secrets
	defer func() {
		if v := recover(); v != nil {
			r = failed(fmt.Errorf("the probe broke: %v; please report it with the check's definition", v))
		}
		if r.Took == 0 {
			r.Took = time.Since(begin)
		}
		hide.reading(&r)
	}()
	switch {
	case s.HTTP != nil:
		return p.http(ctx, s.HTTP, &hide)
	case s.TCP != nil:
		return p.tcp(ctx, s.TCP)
	case s.TLS != nil:
		return p.tls(ctx, s.TLS)
	case s.Command != nil:
		return p.command(ctx, s.Command, &hide)
	case s.SQL != nil:
		return p.sql(ctx, s.SQL, &hide)
	}
	return failed(fmt.Errorf("nothing to probe: a source of kind %q is not measured from outside", s.Kind()))
}

// failed is a Reading of nothing, for a reason that lies with us.
func failed(err error) event.Reading { return event.Reading{Null: true, Err: err} }

// refused returns a CRITICAL Reading without a value: the failure is what the probe was
// to find.
func refused(err error) event.Reading {
	r := failed(err)
	r.Level = level(event.Critical)
	return r
}

func level(l event.Level) *event.Level { return &l }

// trust says which certificates are believed.
type trust struct {
	ca       string
	insecure bool
}

func (t trust) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: t.insecure} //nolint:gosec // asked for by the operator
	if t.ca == "" {
		return c, nil
	}
	text, _, err := readSmall(t.ca)
	if err != nil {
		return nil, fmt.Errorf("read ca: %w; name a file of certificates in PEM that the server may read", err)
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("ca %s holds no certificate; write them in PEM, beginning with -----BEGIN CERTIFICATE-----", t.ca)
	}
	return c, nil
}
