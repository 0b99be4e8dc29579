package mirror

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// primary is the server that answers clients, with its protocols and its TLS
// configuration.
type primary struct {
	server
	tls  *tls.Config // nil without TLS
	dial net.Dialer
	// The protocols that the primary showed at the first connection.
	http1, http2 bool

	open atomic.Int64 // connections of general
	down atomic.Pointer[string]
}

// status returns the number of open connections, and why the last attempt failed, or
// "".
func (p *primary) status() (open int, down string) {
	if why := p.down.Load(); why != nil {
		down = *why
	}
	return int(p.open.Load()), down
}

// connect opens a connection, and remembers whether it could.
func (p *primary) connect(ctx context.Context, _, _ string) (net.Conn, error) {
	c, err := p.dial.DialContext(ctx, "tcp", p.addr())
	if err == nil {
		p.down.Store(nil)
	} else if ctx.Err() == nil {
		why := err.Error()
		p.down.Store(&why)
	}
	return c, err
}

// counted is a connection that is counted while it is open.
type counted struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

func (p *primary) connectCounted(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := p.connect(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	p.open.Add(1)
	return &counted{Conn: c, open: &p.open}, nil
}

// connectTimeout bounds a connection to the primary, its handshake included.
const connectTimeout = 10 * time.Second

// reach connects to the primary once, so that a wrong address is an error at the
// start, and detects its protocols.
func reach(ctx context.Context, o *Options, config *tls.Config) (*primary, error) {
	s, err := parseServer(o.Primary)
	if err != nil {
		return nil, fmt.Errorf("primary: %w", err)
	}
	p := &primary{server: s, dial: net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if !s.tls() {
		c, err := p.dial.DialContext(ctx, "tcp", s.addr())
		if err != nil {
			return nil, p.unreached(err, "start it, or correct its address")
		}
		c.Close()
		p.http1, p.http2 = s.scheme == "http", s.scheme == "h2c"
		return p, nil
	}
	p.tls = config.Clone()
	p.tls.ServerName = s.host
	raw, err := p.dial.DialContext(ctx, "tcp", s.addr())
	if err != nil {
		return nil, p.unreached(err, "start it, or correct its address")
	}
	spoken, err := p.handshake(ctx, raw, "h2", "http/1.1")
	if err != nil {
		return nil, p.unreached(err, "name its authority by --set mirror.ca=FILE, trust everyone by --set mirror.insecure=true, or write http:// if it speaks no TLS")
	}
	p.http2 = spoken.ConnectionState().NegotiatedProtocol == "h2"
	spoken.Close()
	if !p.http2 {
		p.http1 = true
		return p, nil
	}
	// The primary prefers HTTP/2; find out whether it speaks HTTP/1.1, for clients
	// that do.
	if c, err := p.dialHTTP1(ctx); err == nil {
		p.http1 = true
		c.Close()
	}
	return p, nil
}

func (p *primary) unreached(err error, next string) error {
	return fmt.Errorf("primary: %s is not reached: %w: %s", p.text, err, next)
}

// handshake makes c a TLS connection on which one of the protocols is spoken.
// It closes c if it fails.
func (p *primary) handshake(ctx context.Context, c net.Conn, protocols ...string) (*tls.Conn, error) {
	config := p.tls.Clone()
	config.NextProtos = protocols
	t := tls.Client(c, config)
	if err := t.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return t, nil
}

// dialHTTP1 opens a connection on which HTTP/1.1 is spoken.
func (p *primary) dialHTTP1(ctx context.Context) (net.Conn, error) {
	c, err := p.connect(ctx, "tcp", p.addr())
	if err != nil || p.tls == nil {
		return c, err
	}
	t, err := p.handshake(ctx, c, "http/1.1")
	if err != nil {
		return nil, err
	}
	// A server that speaks HTTP/2 negotiates HTTP/1.1 too; others may not support
	// ALPN, and negotiate nothing.
	if got := t.ConnectionState().NegotiatedProtocol; got != "http/1.1" && (p.http2 || got != "") {
		t.Close()
		return nil, fmt.Errorf("%s does not speak http/1.1", p.URL())
	}
	return t, nil
}

// transport returns the transport of general: HTTP/2 if the primary speaks it, else
// HTTP/1.1. It adds nothing to requests.
func (p *primary) transport() *http.Transport {
	t := &http.Transport{
		DialContext:            p.connectCounted,
		DisableCompression:     true, // no Accept-Encoding that the client did not send
		MaxIdleConns:           0,
		MaxIdleConnsPerHost:    1024,
		IdleConnTimeout:        50 * time.Second, // below what servers have by default
		TLSHandshakeTimeout:    connectTimeout,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 1 << 20,
		Protocols:              new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			// Clients share connections. A stream whose client does not read must not
			// take the buffer of the others.
			MaxReceiveBufferPerStream: 512 << 10, MaxReceiveBufferPerConnection: 1 << 30,
			SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second,
		},
	}
	switch {
	case p.scheme == "h2c":
		t.Protocols.SetUnencryptedHTTP2(true)
	case p.tls == nil:
		t.Protocols.SetHTTP1(true)
	default:
		t.TLSClientConfig = p.tls.Clone()
		t.Protocols.SetHTTP1(true)
		t.Protocols.SetHTTP2(true)
	}
	return t
}
