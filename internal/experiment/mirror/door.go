package mirror

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"tailscope/internal/listen"
)

// plain is the door for HTTP/1.1 connections to a primary that speaks it, too.
type plain interface {
	// ServeConn serves a connection of which peeked was read before, until it
	// ends, and closes it.
	ServeConn(c net.Conn, peeked []byte)
	// Shutdown lets the requests that are being served finish until ctx is done,
	// and breaks them off then. When it returns no goroutine is left.
	Shutdown(ctx context.Context) error
	// Connections is how many are open to the primary.
	Connections() int
}

// door accepts connections and hands each to those who speak its protocol.
//
//	TLS --ALPN--> h2 -----------------> general
//	        \---> http/1.1 --\
//	no TLS --first bytes-----+--> plain, or general if the primary speaks
//	        \---> h2 preface --> general      HTTP/2 only
type door struct {
	l       net.Listener
	tls     *tls.Config // nil without TLS
	plain   plain       // nil: the primary speaks HTTP/2 only
	general *http.Server
	handed  *handed // connections for general
	log     *slog.Logger

	mu      sync.Mutex
	waiting map[net.Conn]struct{} // of which it is not known what they speak
	closed  bool
	wg      sync.WaitGroup
}

// helloTimeout is how long a client may take to say what it speaks, and
// headTimeout to send a request's head.
const (
	helloTimeout = 20 * time.Second
	headTimeout  = 60 * time.Second
	idleTimeout  = 3 * time.Minute
)

func newDoor(l net.Listener, config *tls.Config, plain plain, general http.Handler, log *slog.Logger) *door {
	d := &door{l: l, plain: plain, log: log, waiting: make(map[net.Conn]struct{})}
	if config != nil {
		d.tls = config.Clone()
		d.tls.NextProtos = []string{"h2", "http/1.1"}
	}
	d.handed = &handed{addr: l.Addr(), conns: make(chan net.Conn), done: make(chan struct{})}
	d.general = &http.Server{
		Handler:     listen.Working(general),
		ConnContext: listen.ConnContext,
		// OPTIONS * is the primary's to answer.
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            headTimeout,
		IdleTimeout:                  idleTimeout,
		Protocols:                    new(http.Protocols),
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          1000,
			MaxReceiveBufferPerConnection: 16 << 20, MaxReceiveBufferPerStream: 1 << 20,
		},
	}
	d.general.Protocols.SetHTTP1(true)
	d.general.Protocols.SetHTTP2(true)
	d.general.Protocols.SetUnencryptedHTTP2(true)
	return d
}

// start accepts connections until the door is closed.
func (d *door) start() {
	d.wg.Go(func() { _ = d.general.Serve(d.handed) })
	d.wg.Go(d.serve)
}

func (d *door) serve() {
	var pause time.Duration
	for {
		c, err := d.l.Accept()
		if err == nil {
			pause = 0
			d.wg.Go(func() { d.welcome(c) })
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		// No more file descriptors, or a connection that is gone already.
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		d.log.Warn("mirror: a connection was not accepted; trying again", "error", err, "pause", pause)
		select {
		case <-time.After(pause):
		case <-d.handed.done:
			return
		}
	}
}

// preface begins a connection of HTTP/2 (RFC 9113, 3.4).
var preface = []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")

// welcome finds out what a client speaks, and hands its connection on.
func (d *door) welcome(c net.Conn) {
	if !d.wait(c) {
		c.Close()
		return
	}
	_ = c.SetDeadline(time.Now().Add(helloTimeout))
	peeked, two, err := d.hello(&c)
	d.waited(c)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			d.log.Debug("mirror: a client did not say what it speaks", "client", c.RemoteAddr(), "error", err)
		}
		c.Close()
		return
	}
	_ = c.SetDeadline(time.Time{})
	if !two && d.plain != nil {
		d.plain.ServeConn(c, peeked)
		return
	}
	if len(peeked) > 0 {
		c = &peekedConn{Conn: c, peeked: peeked}
	}
	d.handed.give(c)
}

// hello makes *c the connection on which HTTP is spoken, and says whether that
// is HTTP/2. It returns what it has read of it.
func (d *door) hello(c *net.Conn) (peeked []byte, two bool, err error) {
	if d.tls != nil {
		t := tls.Server(*c, d.tls)
		if err := t.Handshake(); err != nil {
			return nil, false, err
		}
		d.swap(*c, t)
		*c = t
		return nil, t.ConnectionState().NegotiatedProtocol == "h2", nil
	}
	peeked = make([]byte, 0, 4096)
	for {
		n, err := (*c).Read(peeked[len(peeked):cap(peeked)])
		peeked = peeked[:len(peeked)+n]
		switch {
		case bytes.HasPrefix(peeked, preface):
			return peeked, true, nil
		case n > 0 && !bytes.HasPrefix(preface, peeked):
			return peeked, false, nil
		case err != nil:
			return nil, false, err
		}
	}
}

// wait notes a connection that is closed when the door is.
func (d *door) wait(c net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.waiting[c] = struct{}{}
	return true
}

func (d *door) waited(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.waiting, c)
}

func (d *door) swap(from, to net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.waiting, from)
	d.waiting[to] = struct{}{}
	if d.closed {
		to.Close()
	}
}

// close accepts no more, lets requests finish until ctx is done, and breaks them
// off then. When it returns no goroutine is left.
func (d *door) close(ctx context.Context) error {
	d.l.Close()
	d.mu.Lock()
	d.closed = true
	for c := range d.waiting {
		c.Close()
	}
	d.mu.Unlock()
	var wg sync.WaitGroup
	var plainErr error
	if d.plain != nil {
		wg.Go(func() { plainErr = d.plain.Shutdown(ctx) })
	}
	err := d.general.Shutdown(ctx)
	if err != nil {
		d.general.Close()
	}
	d.handed.Close()
	wg.Wait()
	d.wg.Wait()
	return errors.Join(plainErr, err)
}

// handed is a listener of connections that were accepted elsewhere.
type handed struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (h *handed) give(c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.done:
		c.Close()
	}
}

func (h *handed) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

func (h *handed) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

func (h *handed) Addr() net.Addr { return h.addr }

// peekedConn is a connection of which something was read before.
type peekedConn struct {
	net.Conn
	peeked []byte
}

// NetConn returns the connection underneath.
func (c *peekedConn) NetConn() net.Conn { return c.Conn }

func (c *peekedConn) Read(p []byte) (int, error) {
	if len(c.peeked) > 0 {
		n := copy(p, c.peeked)
		c.peeked = c.peeked[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}
