package proxy

import (
	"net"
	"syscall"
)

// probe looks into a socket without reading from it or waiting.
type probe struct {
	raw syscall.RawConn // nil: it cannot be probed
	fn  func(fd uintptr)
	n   int
	err error
	buf [1]byte
}

func newProbe(nc net.Conn) *probe {
	p := &probe{}
	if t := socket(nc); t != nil && canPeek {
		if raw, err := t.SyscallConn(); err == nil {
			p.raw = raw
			p.fn = func(fd uintptr) {
				p.n, p.err = peek(fd, p.buf[:])
			}
		}
	}
	return p
}

func (p *probe) look() (n int, err error) {
	if p.raw == nil {
		return 0, syscall.EAGAIN
	}
	if err := p.raw.Control(p.fn); err != nil {
		return 0, err
	}
	return p.n, p.err
}

// reset reports whether the other side has broken the connection off. A peer that has
// only closed its sending side may still wait for an answer.
func (p *probe) reset() bool {
	_, err := p.look()
	return err == syscall.ECONNRESET || err == syscall.EPIPE
}

// quiet reports whether the connection stands and nothing was received on it.
func (p *probe) quiet() bool {
	_, err := p.look()
	return err == syscall.EAGAIN
}
