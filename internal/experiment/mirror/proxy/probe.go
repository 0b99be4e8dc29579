package proxy

import (
	"net"
	"syscall"

	"tailscope/internal/experiment/mirror/rawsocket"
)

// probe looks into a socket without reading from it or waiting.
type probe struct {
	raw syscall.RawConn // nil: it cannot be probed
	fn  func(fd uintptr)
	err syscall.Errno // what reading would be answered with, 0 if bytes or the end have come
}

func newProbe(nc net.Conn) *probe {
	p := &probe{}
	if t := socket(nc); t != nil && rawsocket.Direct {
		if raw, err := t.SyscallConn(); err == nil {
			p.raw = raw
			p.fn = func(fd uintptr) { _, p.err = rawsocket.Peek(fd) }
		}
	}
	return p
}

func (p *probe) look() error {
	if p.raw == nil {
		return syscall.EAGAIN
	}
	if err := p.raw.Control(p.fn); err != nil {
		return err
	}
	if p.err == 0 {
		return nil
	}
	return p.err
}

// reset reports whether the other side has broken the connection off. A peer that has
// only closed its sending side may still wait for an answer.
func (p *probe) reset() bool {
	err := p.look()
	return err == syscall.ECONNRESET || err == syscall.EPIPE
}

// quiet reports whether the connection stands and nothing was received on it.
func (p *probe) quiet() bool {
	err := p.look()
	return err == syscall.EAGAIN
}
