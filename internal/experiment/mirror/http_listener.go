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

// plain serves HTTP/1.1 connections to a primary that speaks it, too.
type plain interface {
	// ServeConn serves a connection of which peeked was read before, until it ends,
	// and closes it.
	ServeConn(c net.Conn, peeked []byte)
	// Shutdown lets the requests that are being served finish until ctx is done,
	// and breaks them off then. When it returns no goroutine is left.
	Shutdown(ctx context.Context) error
	// Connections returns the number of open connections to the primary.
	Connections() int
}

// httpListener accepts connections and hands each to the server of its protocol.
//
//	TLS --ALPN--> h2 -----------------> general
//	        \---> http/1.1 --\
//	no TLS --first bytes-----+--> plain, or general if the primary speaks
//	        \---> h2 preface --> general      HTTP/2 only
type httpListener struct {
	l       net.Listener
	tls     *tls.Config // nil without TLS
	plain   plain       // nil: the primary speaks HTTP/2 only
	general *http.Server
	handed  *handed // connections for general
	log     *slog.Logger

	mu      sync.Mutex
	waiting map[net.Conn]struct{} // whose protocol is not known yet
	closed  bool
	wg      sync.WaitGroup
}

// helloTimeout bounds the time until a client has shown its protocol, and headTimeout
// the time to send a request's head.
const (
	helloTimeout = 20 * time.Second
	headTimeout  = 60 * time.Second
	idleTimeout  = 3 * time.Minute
)

func newHTTPListener(l net.Listener, config *tls.Config, plain plain, general http.Handler, log *slog.Logger) *httpListener {
	h := &httpListener{l: l, plain: plain, log: log, waiting: make(map[net.Conn]struct{})}
	if config != nil {
		h.tls = config.Clone()
		h.tls.NextProtos = []string{"h2", "http/1.1"}
	}
	h.handed = &handed{addr: l.Addr(), conns: make(chan net.Conn), done: make(chan struct{})}
	h.general = &http.Server{
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
	h.general.Protocols.SetHTTP1(true)
	h.general.Protocols.SetHTTP2(true)
	h.general.Protocols.SetUnencryptedHTTP2(true)
	return h
}

// start accepts connections until it is closed.
func (h *httpListener) start() {
	h.wg.Go(func() { _ = h.general.Serve(h.handed) })
	h.wg.Go(h.serve)
}

func (h *httpListener) serve() {
	var pause time.Duration
	for {
		c, err := h.l.Accept()
		if err == nil {
			pause = 0
			h.wg.Go(func() { h.welcome(c) })
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		// No more file descriptors, or a connection that is closed already.
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		h.log.Warn("mirror: a connection was not accepted; trying again", "error", err, "pause", pause)
		select {
		case <-time.After(pause):
		case <-h.handed.done:
			return
		}
	}
}

// preface begins a connection of HTTP/2 (RFC 9113, 3.4).
var preface = []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")

// welcome detects a client's protocol and hands its connection to that server.
func (h *httpListener) welcome(c net.Conn) {
	if !h.wait(c) {
		c.Close()
		return
	}
	_ = c.SetDeadline(time.Now().Add(helloTimeout))
	peeked, two, err := h.hello(&c)
	h.waited(c)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			h.log.Debug("mirror: a client did not say what it speaks", "client", c.RemoteAddr(), "error", err)
		}
		c.Close()
		return
	}
	_ = c.SetDeadline(time.Time{})
	if !two && h.plain != nil {
		h.plain.ServeConn(c, peeked)
		return
	}
	if len(peeked) > 0 {
		c = &peekedConn{Conn: c, peeked: peeked}
	}
	h.handed.give(c)
}

// hello makes *c the connection that HTTP is spoken on, and reports whether that is
// HTTP/2. It returns the bytes that it has read of it.
func (h *httpListener) hello(c *net.Conn) (peeked []byte, two bool, err error) {
	if h.tls != nil {
		t := tls.Server(*c, h.tls)
		if err := t.Handshake(); err != nil {
			return nil, false, err
		}
		h.swap(*c, t)
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

// wait notes a connection that close has to close.
func (h *httpListener) wait(c net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.waiting[c] = struct{}{}
	return true
}

func (h *httpListener) waited(c net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiting, c)
}

func (h *httpListener) swap(from, to net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiting, from)
	h.waiting[to] = struct{}{}
	if h.closed {
		to.Close()
	}
}

// close accepts no more connections, lets requests finish until ctx is done, and
// breaks them off then. When it returns no goroutine is left.
func (h *httpListener) close(ctx context.Context) error {
	h.l.Close()
	h.mu.Lock()
	h.closed = true
	for c := range h.waiting {
		c.Close()
	}
	h.mu.Unlock()
	var wg sync.WaitGroup
	var plainErr error
	if h.plain != nil {
		wg.Go(func() { plainErr = h.plain.Shutdown(ctx) })
	}
	err := h.general.Shutdown(ctx)
	if err != nil {
		h.general.Close()
	}
	h.handed.Close()
	wg.Wait()
	h.wg.Wait()
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

// peekedConn is a connection of which some bytes were read before.
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
