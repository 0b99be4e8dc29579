package otlp

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/mem"

	"tailscope/internal/listen"
)

// framesListener watches the frames of gRPC's clients, to bound requests that are partly
// sent. gRPC itself bounds them by stream and by connection only: 256 streams of each
// connection may each hold a message but its last byte, for as long as they like.
type framesListener struct {
	net.Listener
	bodies *listen.Bodies
}

func (l *framesListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	f := &framesConn{Conn: c, bodies: l.bodies, streams: map[uint32]*listen.Body{}, closed: make(chan struct{})}
	f.in.skip = len(clientPreface)
	if f.place, _ = c.(*listen.Conn); f.place != nil {
		c = f.place.NetConn()
	}
	f.ready = newReadyReader(c)
	return f, nil
}

const clientPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" // RFC 9113, 3.4

// framesConn counts each request as an arriving body, from its HEADERS until the frame
// that ends it. At a bound it stops reading until there is memory, so that its client
// waits. Cutting off a request closes its connection.
type framesConn struct {
	net.Conn
	bodies *listen.Bodies
	place  *listen.Conn // nil if connections are not bounded
	ready  *readyReader // nil: a read needs a buffer beforehand
	in     frames       // the reader's
	out    frames       // the writer's

	mu      sync.Mutex
	streams map[uint32]*listen.Body // open streams; nil once the request is whole
	shut    bool
	closed  chan struct{}
	cut     atomic.Bool // a request was cut off
}

// Read reads what the client sends. It blocks until there is memory for that.
func (c *framesConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.countFrames(b[:n]) {
		return 0, net.ErrClosed
	}
	return n, err
}

// ReadOnReady is Read into a buffer of the pool, taken once there is something to read.
// gRPC calls it if it exists, so that idle connections hold no buffer.
func (c *framesConn) ReadOnReady(size int, pool mem.BufferPool) (buf *[]byte, n int, err error) {
	if c.ready != nil {
		buf, n, err = c.ready.read(size, pool)
	} else {
		buf = pool.Get(size)
		n, err = c.Conn.Read(*buf)
	}
	if n > 0 && !c.countFrames((*buf)[:n]) {
		n, err = 0, net.ErrClosed
	}
	if n == 0 && buf != nil {
		pool.Put(buf)
		buf = nil
	}
	return buf, n, err
}

// countFrames counts the frames in what was read. It returns false if the connection was
// closed while it waited for memory.
func (c *framesConn) countFrames(b []byte) bool {
	for at := 0; at < len(b); {
		f, next, ok := c.in.next(b, at)
		at = next
		if ok && !c.received(f) {
			return false
		}
	}
	return true
}

// Write observes which streams end.
func (c *framesConn) Write(b []byte) (int, error) {
	for at := 0; at < len(b); {
		f, next, ok := c.out.next(b, at)
		at = next
		if ok && (f.kind == rstFrame || f.kind == headersFrame && f.flags&endStream != 0) {
			c.end(f.stream)
		}
	}
	return c.Conn.Write(b)
}

// Close closes the connection and ends its arriving requests.
func (c *framesConn) Close() error {
	c.mu.Lock()
	if !c.shut {
		c.shut = true
		close(c.closed)
		for id := range c.streams {
			c.dropStream(id)
		}
	}
	c.mu.Unlock()
	return c.Conn.Close()
}

// received counts a frame of the client's. At a bound it waits: for cutAfter until
// requests become whole or are refused, then until one is cut off. It returns false if
// the connection was closed meanwhile.
func (c *framesConn) received(f frame) bool {
	for waited := time.Duration(0); !c.count(f, waited >= cutAfter); waited += spacePoll {
		if c.cut.Load() {
			return false
		}
		select {
		case <-c.closed:
			return false
		case <-time.After(spacePoll):
		}
	}
	return true
}

// spacePoll is the interval between checks for memory.
const (
	spacePoll = 20 * time.Millisecond
	cutAfter  = time.Second
)

// count returns false at a bound. With cut, it may cut off another request.
func (c *framesConn) count(f frame, cut bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shut {
		return true // its reader learns that by an error
	}
	body, open := c.streams[f.stream]
	switch f.kind {
	case headersFrame:
		if open {
			break // trailers
		}
		if f.flags&endStream == 0 {
			if body = c.bodies.Begin(c.cutOff); body == nil {
				return false
			}
		}
		c.streams[f.stream] = body
		c.place.Begin()
	case dataFrame:
		if body != nil && f.flags&endStream == 0 { // otherwise it is whole now
			if !body.Fit(f.length) && !(cut && body.Grow(f.length)) {
				return false
			}
		}
	case rstFrame:
		c.dropStream(f.stream)
		return true
	default:
		return true
	}
	if f.flags&endStream != 0 && body != nil {
		body.Arrived()
		body.End()
		c.streams[f.stream] = nil
	}
	return true
}

// cutOff closes the underlying connection; its reader, or the goroutine that waits for
// memory, closes this one.
func (c *framesConn) cutOff() {
	c.cut.Store(true)
	c.Conn.Close()
}

// end removes a stream whose response is complete.
func (c *framesConn) end(stream uint32) {
	c.mu.Lock()
	c.dropStream(stream)
	c.mu.Unlock()
}

// dropStream removes a stream. The caller holds c.mu.
func (c *framesConn) dropStream(stream uint32) {
	body, open := c.streams[stream]
	if !open {
		return
	}
	delete(c.streams, stream)
	if body != nil {
		body.End()
	}
	c.place.End()
}

// frame is the header of an HTTP/2 frame (RFC 9113, 4.1).
type frame struct {
	length int
	kind   byte
	flags  byte
	stream uint32
}

const (
	dataFrame    = 0
	headersFrame = 1
	rstFrame     = 3
	endStream    = 1 // of DATA and HEADERS

	frameHead = 9
)

// frames finds the headers of frames in pieces of a connection's bytes.
type frames struct {
	head [frameHead]byte
	n    int // bytes of the header so far
	skip int // bytes left of the preface, or of a frame's payload, before the next header
}

// next continues in b from at. It returns where it stopped, and the next frame if its
// header is complete there. The payload need not be.
func (s *frames) next(b []byte, at int) (f frame, end int, ok bool) {
	if n := min(s.skip, len(b)-at); n > 0 {
		s.skip -= n
		at += n
	}
	n := copy(s.head[s.n:], b[at:])
	s.n += n
	at += n
	if s.n < frameHead {
		return f, at, false
	}
	s.n = 0
	f = frame{
		length: int(s.head[0])<<16 | int(s.head[1])<<8 | int(s.head[2]),
		kind:   s.head[3], flags: s.head[4],
		stream: binary.BigEndian.Uint32(s.head[5:]) &^ (1 << 31),
	}
	s.skip = f.length
	return f, at, true
}
